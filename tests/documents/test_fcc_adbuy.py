import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl_audit.cli.main import run
from pfl_audit.documents.document import Membership
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.readers.fcc_adbuy import import_fcc_adbuy
from pfl_audit.errors import AuditError
from pfl_audit.metrics import ranking


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
    found = import_fcc_adbuy(folder, seed=0)
    asked = {query.key: query.answers for query in found.out_model.queries if query.document.id == "doc-16_1"}
    assert asked == {"contract_number": ("c16",), "advertiser": ("ad buyer",), "provider_name": ("keee",)}
    assert found.audit.documents[0].boxes.max() == 1.0
    assert [problem.reason for problem in found.audit.problems] == ["no station is known"]


@pytest.mark.parametrize("seed", range(4))
def test_both_classes_are_treated_alike(folder: Path, seed: int) -> None:
    """Half of every station's pages is held back: members' train, non-members' are nowhere."""
    found = import_fcc_adbuy(folder, seed)
    assert len(found.audit.members()) == len(found.audit.non_members()) == 2
    for one, other in (("KAAA", "KBBB"), ("KCCC", "KDDD")):
        assert len({one, other} & set(found.audit.members())) == 1
    for station, pages in {"KAAA": 5, "KBBB": 5, "KCCC": 3, "KDDD": 3}.items():
        member = station in found.audit.members()
        own = Counter(document.split for document in found.audit.documents if document.provider == station)
        red = f"red_test_{'positive' if member else 'negative'}"
        assert own == Counter({red: pages // 2} | ({"blue_train": -(-pages // 2)} if member else {}))


def test_stations_of_one_document_train_the_out_model(folder: Path) -> None:
    found = import_fcc_adbuy(folder, seed=0)
    assert found.out_model.providers == ("KEEE", "KFFF")
    assert {found.out_model.label(station) for station in ("KEEE", "KFFF")} == {Membership.UNKNOWN}
    assert {document.split for document in found.out_model.documents} == {"blue_train"}
    assert not set(found.out_model.providers) & set(found.audit.providers)


def test_a_document_without_a_question_does_not_count(folder: Path) -> None:
    with (folder / "docs.jsonl").open("a") as file:
        file.write(json.dumps({**row(90, "KEEE"), "spans": {}, "words": [["nothing", 0, 0, 9, 9]]}) + "\n")
    found = import_fcc_adbuy(folder, seed=0)
    assert "KEEE" in found.out_model.providers
    assert ("doc-90", "none of its labels is on the first page") in {
        (problem.record, problem.reason) for problem in found.audit.problems
    }


def test_the_split_follows_the_seed(folder: Path) -> None:
    splits = [{d.id: d.split for d in import_fcc_adbuy(folder, seed).audit.documents} for seed in (0, 0, 5)]
    assert splits[0] == splits[1] != splits[2]
    assert {"KAAA" in import_fcc_adbuy(folder, seed).audit.members() for seed in range(8)} == {True, False}


def test_the_command_writes_both(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new"
    assert run(["data", "import", "fcc-adbuy", str(folder), "--out", str(out), "--json", "-q"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["providers"], said["out_model"]["providers"]) == (4, 2)
    assert len(open_corpus(out, "red").providers) == 4
    assert open_corpus(out / "out-model", "blue").providers == ("KEEE", "KFFF")
    counted = said["pages"] + said["out_model"]["pages"] + said["left_out"] + said["unused"]
    assert counted == len((folder / "docs.jsonl").read_text().splitlines())
    assert said["unused"] > 0


def test_stations_of_one_document_alone_are_no_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "docs.jsonl").write_text(json.dumps(row(0, "KAAA")))
    assert run(["data", "import", "fcc-adbuy", str(tmp_path), "--out", str(tmp_path / "new"), "-q"]) == 3
    assert "no question about a station with two documents" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_another_folder(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"holds no docs\.jsonl"):
        import_fcc_adbuy(tmp_path, 0)


@pytest.mark.slow
def test_the_real_documents() -> None:
    source = Path(__file__).parents[2].parent / "shared/data/fcc_adbuy"
    if not source.is_dir():
        pytest.skip("the fcc-adbuy documents are not on this machine")
    found = import_fcc_adbuy(source, seed=0)
    assert (len(found.audit.documents), len(found.audit.providers)) == (273, 127)
    assert (len(found.out_model.documents), len(found.out_model.providers)) == (125, 125)
    red = found.audit.where(lambda query: query.document.split != "blue_train").by_unit()
    counts = np.array([float(len(queries)) for queries in red.values()])
    members = np.array([found.audit.label(station) is Membership.MEMBER for station in red])
    assert ranking.auc(counts, members)[0] == pytest.approx(0.5, abs=0.05)


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
    found = import_fcc_adbuy(folder, 0)
    corpus = found.audit
    assert (len(corpus.documents), len(found.out_model.documents)) == (11, 2)
    problems = {problem.record: problem.reason for problem in corpus.problems}
    assert [problems.pop(f"docs.jsonl line {number}").split(":")[0] for number in range(20, 27)] == [
        "it is not a JSON object",
        "it is not valid JSON (at letter 3 of the line)",
        "the field 'id' is missing",
        "id is not a text",
        "station is not a text",
        "an earlier document has its id",
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
    found = import_fcc_adbuy(folder, 0)
    corpus = found.audit
    assert (len(corpus.documents), len(found.out_model.documents)) == (11, 2)
    (problem,) = [problem for problem in corpus.problems if problem.record == "doc-90"]
    assert reason in problem.reason


@pytest.mark.parametrize(("error", "code"), [(AuditError("no space is left"), 2), (KeyboardInterrupt(), 130)])
def test_an_import_that_fails_leaves_nothing(
    error: BaseException, code: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as on a full disk, or with Ctrl-C: the same command can be repeated."""

    def fails(corpus: object, out: Path) -> None:
        (out / "images").mkdir(parents=True)
        (out / "images/page.png").write_bytes(b"page")
        raise error

    out = tmp_path / "new"
    command = ["data", "import", "fcc-adbuy", str(folder), "--out", str(out), "-q"]
    with monkeypatch.context() as patched:
        patched.setattr("pfl_audit.documents.writers.write_jsonl", fails)
        assert run(command) == code
    assert not out.exists()
    assert run(command) == 0
