import json
from pathlib import Path

import pytest

from pfl_audit.cli.main import run

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forms") / "made"
    counts = ["--private", "4", "--public", "3", "--validation", "2"]
    assert run(["data", "make-forms", "--out", str(folder), *counts, "--seed", "3", "-q"]) == 0
    return folder


def test_check_counts_fields_and_parts(forms: Path, capsys: Capture) -> None:
    assert run(["data", "check", str(forms), "--json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parts"] == {"validation": 2, "public": 3, "private": 4}
    assert (found["format"], found["forms"], found["documents"]) == ("forms.jsonl", 9, 9)
    assert found["fields"]["header"] == 9
    assert found["fields"]["question"] == found["fields"]["answer"] == found["links"]
    assert (found["drawn"], found["near_duplicates"], found["left_out"], found["problems"]) == (False, 0, 0, [])


def test_check_tells_it_in_words(forms: Path, tmp_path: Path, capsys: Capture) -> None:
    lines = (forms / "forms.jsonl").read_text().splitlines()
    rows = [{**json.loads(line), "image": None, "part": None} for line in lines]
    rows.append({**rows[0], "id": "copy_1"})
    rows.append({**rows[0], "id": "bad\x1b[31m_1", "boxes": []})
    rows.append({**rows[0], "id": "label_1", "links": [], "fields": [{**rows[0]["fields"][0], "label": "\x1b[2Jodd"}]})
    (tmp_path / "forms.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert run(["data", "check", str(tmp_path), "-q"]) == 0
    out = capsys.readouterr().out
    assert "11 forms of 11 documents" in out
    assert "parts drawn with seed 0; forms with a near-duplicate: 3, left out: 0" in out
    assert "unusable: forms.jsonl line 11: " in out
    assert "1 records cannot be used" in out
    assert "\x1b" not in out


def test_check_opens_the_pictures(forms: Path, tmp_path: Path, capsys: Capture) -> None:
    row = json.loads((forms / "forms.jsonl").read_text().splitlines()[0])
    (tmp_path / "images").mkdir()
    (tmp_path / row["image"]).write_bytes(b"no picture")
    (tmp_path / "forms.jsonl").write_text(json.dumps(row))
    assert run(["data", "check", str(tmp_path), "--json", "-q"]) == 0
    assert row["id"] not in capsys.readouterr().out
    assert run(["data", "check", str(tmp_path), "--json", "-q", "--reveal"]) == 0
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["record"] == row["id"]
    assert "its page image cannot be used" in problem["reason"]


def test_check_where_nothing_can_be_used(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "forms.jsonl").write_text("[1]\n")
    assert run(["data", "check", str(tmp_path), "--json", "-q"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["forms"], found["parts"], found["near_duplicates"]) == (0, {}, None)
    assert found["problems"][0] == {"record": "forms.jsonl line 1", "reason": "it is not a JSON object"}


def test_make_forms_refuses(tmp_path: Path, capsys: Capture) -> None:
    assert run(["data", "make-forms", "--out", str(tmp_path / "x"), "--public", "0"]) == 4
    assert "every part needs a form" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert run(["data", "make-forms", "--out", str(tmp_path)]) == 4


def test_make_forms_tells_what_it_wrote(tmp_path: Path, capsys: Capture) -> None:
    counts = ["--private", "1", "--public", "1", "--validation", "1"]
    assert run(["data", "make-forms", "--out", str(tmp_path / "x"), *counts, "--json", "-q"]) == 0
    assert json.loads(capsys.readouterr().out)["forms"] == 3
    assert run(["data", "make-forms", "--out", str(tmp_path / "y"), *counts]) == 0
    assert "3 forms with" in capsys.readouterr().err
