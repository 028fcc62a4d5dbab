import json
from pathlib import Path

import pytest
from PIL import Image

from pfl_audit.documents.readers.fcc_adbuy import import_fcc_adbuy
from pfl_audit.errors import AuditError


def row(number: int, station: str | None) -> dict[str, object]:
    return {
        "id": f"doc-{number}",
        "image": f"images/doc-{number}.png",
        "width": 100,
        "height": 50,
        "station": station,
        "fields": {"contract_num": f"C{number}", "advertiser": "Ad Buyer", "gross_amount": "$1.00"},
        "spans": {"contract_num": [[1, 2]], "advertiser": [[2, 4]], "gross_amount": []},
        "words": [
            [station or "none", 0, 0, 10, 5],
            [f"C{number}", 10, 0, 20, 5],
            ["Ad", 20, 0, 30, 5],
            ["Buyer", 30, 0, 110, 5],
        ],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "images").mkdir()
    stations = ["KAAA"] * 5 + ["KBBB"] * 5 + ["KCCC"] * 3 + ["KDDD"] * 3 + ["KEEE", "KFFF", None]
    with (tmp_path / "docs.jsonl").open("w") as file:
        for number, station in enumerate(stations):
            file.write(json.dumps(row(number, station)) + "\n")
            Image.new("L", (100, 50)).save(tmp_path / f"images/doc-{number}.png")
    return tmp_path


def test_labels_that_stand_on_the_page_become_questions(folder: Path) -> None:
    corpus = import_fcc_adbuy(folder, seed=0)
    asked = {query.key: query.answers for query in corpus.queries if query.document.id == "doc-0_1"}
    assert asked == {"contract_number": ("c0",), "advertiser": ("ad buyer",), "provider_name": ("kaaa",)}
    assert corpus.documents[0].boxes.max() == 1.0
    assert [problem.reason for problem in corpus.problems] == ["no station is known"]


def test_half_of_the_stations_are_members_and_no_page_is_on_both_sides(folder: Path) -> None:
    corpus = import_fcc_adbuy(folder, seed=1)
    assert len(corpus.members()) == len(corpus.non_members()) == 3
    splits = {document.id: document.split for document in corpus.documents}
    assert len(splits) == 18
    for document in corpus.documents:
        trained = document.split == "blue_train"
        assert not (trained and document.provider in corpus.non_members())
    for station in set(corpus.members()) & {"KAAA", "KBBB"}:
        own = [document.split for document in corpus.documents if document.provider == station]
        assert (own.count("blue_train"), own.count("red_test_positive")) == (3, 2)


def test_the_split_follows_the_seed(folder: Path) -> None:
    splits = [{d.id: d.split for d in import_fcc_adbuy(folder, seed).documents} for seed in (0, 0, 5)]
    assert splits[0] == splits[1] != splits[2]


def test_another_folder(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"holds no docs\.jsonl"):
        import_fcc_adbuy(tmp_path, 0)


def test_the_real_documents() -> None:
    source = Path(__file__).parents[2].parent / "shared/data/fcc_adbuy"
    if not source.is_dir():
        pytest.skip("the fcc-adbuy documents are not on this machine")
    corpus = import_fcc_adbuy(source, seed=0)
    assert len(corpus.documents) == 499
    assert len(corpus.providers) == 252


def test_lines_that_are_no_documents_are_listed(folder: Path) -> None:
    lines = [
        "[1]",
        "{",
        '{"station": "KAAA"}',
        '{"id": 3}',
        '{"id": "x", "station": ["KAAA"]}',
        json.dumps(row(0, "K")),
    ]
    lines.append(json.dumps({**row(90, "KAAA"), "station": "\ud800"}))
    with (folder / "docs.jsonl").open("a") as file:
        file.write("\n".join(lines))
    corpus = import_fcc_adbuy(folder, 0)
    assert len(corpus.documents) == 18
    problems = {problem.record: problem.reason for problem in corpus.problems}
    assert [problems.pop(f"docs.jsonl line {number}").split(":")[0] for number in range(20, 27)] == [
        "it is not a JSON object",
        "it is not valid JSON (at letter 3 of the line)",
        "the field 'id' is missing",
        "id is not a text",
        "station is not a text",
        "a document with its id stands further up",
        "a text in it is not valid Unicode (a lone surrogate)",
    ]
    assert list(problems) == ["doc-18"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"image": "/etc/hostname"}, "points outside"),
        ({"image": "images/../../secret.png"}, "points outside"),
        ({"image": "a" * 300}, "image is missing"),
        ({"width": 0}, "no size"),
        ({"fields": 3}, "fields is not a JSON object"),
        ({"words": [[]]}, "a word is not a list"),
        ({"words": [["a", float("inf"), 0, 10**400, 1]]}, "not four numbers"),
    ],
)
def test_a_damaged_document_is_listed(folder: Path, change: dict[str, object], reason: str) -> None:
    with (folder / "docs.jsonl").open("a") as file:
        file.write(json.dumps({**row(90, "KAAA"), **change}))
    corpus = import_fcc_adbuy(folder, 0)
    assert len(corpus.documents) == 18
    (problem,) = [problem for problem in corpus.problems if problem.record == "doc-90"]
    assert reason in problem.reason
