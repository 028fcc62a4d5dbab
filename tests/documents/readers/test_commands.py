"""The readers from the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli.main import run
from pfl_audit.documents.readers import READERS, open_corpus
from tests.documents.readers.test_forms_as_questions import receipt
from tests.documents.readers.test_hugging_face import asked, parquet

pytestmark = pytest.mark.skipif("sroie" not in READERS.installed(), reason="the entry points are not registered")


def test_receipts_are_forms_to_check_and_questions_to_import(tmp_path: Path, capsys: Any) -> None:
    receipt(tmp_path / "in", "r1", {"company": "Acme Ltd", "total": "9.00"})
    assert run(["data", "check", str(tmp_path / "in"), "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "sroie"
    for command in (["import", "sroie"], ["convert"]):
        out = tmp_path / command[0]
        assert run(["data", *command, str(tmp_path / "in"), "--out", str(out), "-q"]) == 0
        assert open_corpus(out).providers == ("Acme Ltd",)


def test_parquet_is_converted(tmp_path: Path, capsys: Any) -> None:
    parquet(tmp_path / "in/data/train-00000-of-00001.parquet", [asked(1, 1), asked(2, 2, image=None)])
    assert run(["data", "convert", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert "left out: data/train-00000-of-00001.parquet row 2: it has no page image" in capsys.readouterr().err
    (page,) = open_corpus(tmp_path / "out").documents
    assert page.image is not None
    assert page.image.open().size == (30, 20)
