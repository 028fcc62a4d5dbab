"""SROIE and FUNSD as corpora of questions."""

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pfl_audit.documents.readers import funsd, sroie
from pfl_audit.documents.readers.jsonl import READER as JSONL
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.errors import AuditError


def receipt(folder: Path, name: str, values: dict[str, Any]) -> None:
    for part in ("box", "entities", "img"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / f"box/{name}.txt").write_text("0,0,90,0,90,9,0,9,Acme Ltd 9.00\n")
    (folder / f"entities/{name}.txt").write_text(json.dumps(values))
    Image.new("L", (100, 50)).save(folder / f"img/{name}.png")


def test_entities_become_questions_of_the_company(tmp_path: Path) -> None:
    receipt(tmp_path / "train", "r1", {"company": "Acme Ltd", "total": "9.00", "date": ""})
    receipt(tmp_path / "test", "r2", {"total": "9.00"})
    receipt(tmp_path / "test", "r3", {"company": ["Zyxwv"]})
    assert sroie.READER.recognises(tmp_path)
    corpus = sroie.READER.read(tmp_path, "all")
    found = [(query.key, query.answers, query.document.provider, query.document.split) for query in corpus.queries]
    assert found == [
        ("provider_name", ("Acme Ltd",), "Acme Ltd", "blue_train"),
        ("total_amount", ("9.00",), "Acme Ltd", "blue_train"),
        ("total_amount", ("9.00",), "r2", "red_test"),
    ]
    assert corpus.documents[0].words == ("Acme", "Ltd", "9.00")
    (problem,) = corpus.problems
    assert (problem.record, problem.is_page) == ("r3.txt", True)
    assert "Zyxwv" not in problem.reason
    write_jsonl(corpus, tmp_path / "out")
    again = JSONL.read(tmp_path / "out", "all")
    assert [(query.id, query.key, query.answers) for query in again.queries] == [
        (query.id, query.key, query.answers) for query in corpus.queries
    ]


def entity(number: int, label: str, text: str, *links: list[int]) -> dict[str, Any]:
    words = [{"text": word, "box": [9 * at, 9, 9 * at + 8, 20]} for at, word in enumerate(text.split())]
    return {"id": number, "label": label, "words": words, "linking": list(links)}


FORM = [
    entity(0, "header", "FORM", [0, 1]),
    entity(1, "question", "Full Name:", [1, 2], [1, 3]),
    entity(2, "answer", "Ada", [1, 2]),
    entity(3, "answer", "Byron"),
    entity(4, "question", "Fax:"),
]


def form(folder: Path, name: str, entities: object) -> None:
    for part in ("annotations", "images"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    (folder / f"annotations/{name}.json").write_text(json.dumps({"form": entities}))
    Image.new("L", (100, 50)).save(folder / f"images/{name}.png")


def test_links_become_questions(tmp_path: Path) -> None:
    form(tmp_path / "training_data", "a", FORM)
    form(tmp_path / "testing_data", "b", FORM)
    form(tmp_path / "testing_data", "c", FORM[3:])
    (tmp_path / "providers.csv").write_text("file,provider\na.png,Acme\n")
    corpus = funsd.READER.read(tmp_path, "all")
    found = [(query.question, query.key, query.answers, query.document.provider) for query in corpus.queries]
    row = ("What is Full Name?", "full_name", ("Ada Byron",))
    assert found == [(*row, "Acme"), (*row, "b")]
    assert [page.split for page in corpus.documents] == ["blue_train", "red_test"]
    assert [(one.record, one.reason) for one in corpus.problems] == [("c.json", "no question about it has an answer")]


def test_parts_of_an_answer_stand_in_the_order_of_the_page(tmp_path: Path) -> None:
    """Whatever the order of the links."""
    form(tmp_path, "a", [FORM[0], entity(1, "question", "Full Name:", [1, 3], [1, 2]), *FORM[2:]])
    (query,) = funsd.READER.read(tmp_path, "all").queries
    assert query.answers == ("Ada Byron",)


def test_a_table_names_files_with_points_and_providers_with_any_letter(tmp_path: Path) -> None:
    for name in ("a.v2", "b"):
        form(tmp_path, name, FORM)
    (tmp_path / "providers.csv").write_text('file,provider\na.v2,Acme\nb.JPG,"Bolt\u2028 TV"\n')
    providers = [query.document.provider for query in funsd.READER.read(tmp_path, "all").queries]
    assert providers == ["Acme", "Bolt\u2028 TV"]


@pytest.mark.parametrize("table", ["name,company\na,b\n", "file,provider\na\n", "file,provider\na, \n"])
def test_a_table_of_another_form(tmp_path: Path, table: str) -> None:
    form(tmp_path, "a", FORM)
    (tmp_path / "providers.csv").write_text(table)
    with pytest.raises(AuditError, match="not a table of providers"):
        funsd.READER.read(tmp_path, "all")
