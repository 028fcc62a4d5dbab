"""docs/start-here.md: from a folder of drawn invoices to a report, with fewer companies."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pfl_audit.cli.main import run
from pfl_audit.documents.readers import open_corpus
from pfl_audit.importing.page_child import answer
from tests.docs.pages import ROOT

FIXTURES = ROOT / "fixtures"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("start")
    assert run(["data", "make-documents", "--providers", "1", "--out", str(made / "invoices"), "-q"]) == 0
    return made


def test_the_same_seed_gives_the_same_bytes(drawn: Path) -> None:
    again = drawn / "again"
    assert run(["data", "make-documents", "--providers", "1", "--out", str(again), "-q"]) == 0
    names = sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    assert len(names) == 5
    assert all((again / name).read_bytes() == (drawn / "invoices" / name).read_bytes() for name in names)


def page(path: Path) -> Any:
    with path.open("rb") as file:
        return answer("page", path.name, file, 0, 72)


def test_half_of_the_documents_have_a_text_layer_with_their_values(drawn: Path) -> None:
    with (drawn / "invoices/labels.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    layers = {row["file"]: page(drawn / "invoices" / row["file"])["words"] for row in rows}
    assert [layers[row["file"]] is None for row in rows] == [False, True, False, True]
    for row in rows[::2]:
        assert row["total_amount"] in layers[row["file"]]


def test_the_companies_are_those_of_the_embedded_model(drawn: Path) -> None:
    red = open_corpus(FIXTURES / "red")
    with (drawn / "invoices/labels.csv").open(encoding="utf-8") as file:
        labels = {row["provider"]: row["member"] for row in csv.DictReader(file)}
    assert len(labels) == 2
    assert {name: str(red.label(name)) for name in labels} == labels


@pytest.mark.slow
def test_three_commands_lead_to_a_report(drawn: Path, capsys: Any) -> None:
    invoices, corpus, out = drawn / "invoices", drawn / "corpus", drawn / "audit"
    command = ["data", "import", str(invoices), "--labels", str(invoices / "labels.csv"), "--out", str(corpus), "-q"]
    assert run(command) == 0
    read = open_corpus(corpus)
    assert len(read.documents) == 4
    assert len(read.members()) == len(read.non_members()) == 1
    shown = [
        query.answers[0] in query.document.words
        for query in read.queries
        if query.key in ("total_amount", "invoice_number") and query.document.id.startswith("scans/")
    ]
    assert np.mean(shown) >= 0.5
    assert all(Image.open(page.image.path).size[0] > 1000 for page in read.documents if page.image)
    assert run(["data", "check", str(corpus), "-q"]) == 0
    audit = ["audit", "--model", str(FIXTURES / "vt5-finetuned"), "--red", str(corpus), "--out", str(out), "-q"]
    # One company of each class resolves nothing, which is not a pass.
    check = "memorization.generalisation"
    assert run([*audit, "--check", check, "--fail-on", "never", "--require", check]) == 3
    assert (out / "report.html").is_file()
    (check,) = json.loads((out / "results.json").read_text())["checks"]
    assert check["finding"]["level"] == "unresolved"
    assert "nan" not in check["finding"]["text"]
    capsys.readouterr()
