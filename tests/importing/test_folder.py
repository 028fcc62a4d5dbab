"""A folder of documents from the command line."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli.main import run
from pfl_audit.documents.document import Membership, as_boxes
from pfl_audit.documents.readers import open_corpus
from pfl_audit.importing.reading import joined
from tests.importing.drawn import hidden, pdf, scan, stamped

INVOICE = ["Acme Ltd billing@acme.example", "Invoice date: 12/31/2021", "Total: $1,234.50"]
TABLE = "file,provider,member,provider_email,total_amount\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three documents, one of them scanned, and a file that is none."""
    pdf(tmp_path / "in/a.pdf", ["This is a cover page"], INVOICE)
    pdf(tmp_path / "in/sub/b.PDF", INVOICE)
    scan(tmp_path / "in/c.png", "Total: $99.50")
    (tmp_path / "in/notes.txt").write_text("no document")
    return tmp_path


def given(folder: Path, *rows: str) -> Path:
    (folder / "given.csv").write_text(TABLE + "".join(f"{row}\n" for row in rows))
    return folder / "given.csv"


def data_import(folder: Path, *more: object) -> int:
    return run(["data", "import", str(folder / "in"), "--out", str(folder / "out"), "-q", *map(str, more)])


def test_a_table_of_values_gives_a_corpus(folder: Path, capsys: Any) -> None:
    table = given(
        folder,
        "a.pdf,Acme,yes,billing@acme.example,\"$1,234.50\"",
        "sub/b.PDF,Acme,yes,,\"$1,234.50\"",
        "c.png,Other,no,,$99.50",
    )  # fmt: skip
    assert data_import(folder, "--labels", table, "--json") == 0
    assert json.loads(capsys.readouterr().out)["questions"] == 4
    corpus = open_corpus(folder / "out")
    assert {query.document.id: query.answers for query in corpus.queries if query.key == "total_amount"} == {
        "a.pdf_2": ("$1,234.50",),  # the page that shows the value
        "sub/b.PDF_1": ("$1,234.50",),
        "c.png_1": ("$99.50",),
    }
    assert corpus.membership == {"Acme": Membership.MEMBER, "Other": Membership.NON_MEMBER}
    scanned = next(page for page in corpus.documents if page.id == "c.png_1")
    assert scanned.words == ("Total:", "$99.50")
    assert all(page.image is not None and page.image.open() for page in corpus.documents)
    assert run(["data", "check", str(folder / "out"), "-q"]) == 0


def test_proposed_values_are_used_when_a_person_says_so(folder: Path, capsys: Any) -> None:
    assert data_import(folder, "--ocr", "never") == 0
    out = folder / "out"
    assert not (out / "corpus.jsonl").exists()
    assert {(out / name).stat().st_mode & 0o777 for name in ("labels.csv", "contact-sheet.html")} == {0o600}
    assert (out / "cache").stat().st_mode & 0o777 == 0o700
    sheet = (out / "contact-sheet.html").read_text()
    assert "default-src 'none'" in sheet
    assert not re.search(r"(?:src|href)=\"(?!data:)", sheet)
    assert "$1,234.50" in sheet
    assert data_import(folder, "--ocr", "never") == 4  # nothing that a person may have corrected is overwritten
    assert data_import(folder, "--ocr", "never", "--labels", out / "labels.csv") == 4
    assert "has not accepted" in capsys.readouterr().err
    assert not (out / "corpus.jsonl").exists()
    corrected = (out / "labels.csv").read_text().replace("billing@acme.example", "office@acme.example")
    (out / "labels.csv").write_text(corrected)
    capsys.readouterr()
    assert run(["data", "import", str(folder / "in"), "--out", str(out), "--ocr", "never", "--accept"]) == 0
    assert "the membership of 2 of 2 providers is unknown" in capsys.readouterr().err
    answers = {query.answers[0] for query in open_corpus(out).queries}
    assert answers == {"office@acme.example", "12/31/2021", "$1,234.50"}


def test_pictures_of_an_output_folder_among_the_documents_are_none(folder: Path) -> None:
    out = folder / "in/sub/out"
    command = ["data", "import", str(folder / "in"), "--out", str(out), "--ocr", "never", "-q"]
    assert run(command) == 0
    assert list((out / "images").iterdir())
    table = (out / "labels.csv").read_text()
    (out / "labels.csv").unlink()
    assert run(command) == 0
    assert (out / "labels.csv").read_text() == table


def test_a_table_without_values_is_kept_in_the_proposed_one(folder: Path) -> None:
    (folder / "given.csv").write_text("file,provider,member\na.pdf,Acme,yes\nsub/b.PDF,Other,no\n")
    assert data_import(folder, "--ocr", "never", "--labels", folder / "given.csv") == 0
    assert data_import(folder, "--ocr", "never", "--accept") == 0
    assert open_corpus(folder / "out").membership == {"Acme": Membership.MEMBER, "Other": Membership.NON_MEMBER}


def test_documents_that_are_left_out_are_listed_without_their_names(folder: Path, capsys: Any) -> None:
    (folder / "in/secret.pdf").write_bytes(b"%PDF-1.4 nothing")
    (folder / "in/note.DOCX").write_bytes(b"PK")
    (folder / "in/line\nbreak.pdf").write_bytes(b"%PDF-1.4 nothing")
    (folder / "in/Screenshot at 3.45\u202fPM.pdf").write_bytes(b"%PDF-1.4 nothing")
    table = given(folder, "a.pdf,Acme,yes,billing@acme.example,")
    arguments = ["data", "import", str(folder / "in"), "--out", str(folder / "out"), "--labels", str(table)]
    assert run([*arguments, "--ocr", "never"]) == 0
    printed = capsys.readouterr().err
    for reason in ("it is damaged", "its name has control characters", "the table has no row for it"):
        assert reason in printed
    assert "secret" not in printed
    assert "names are masked; --reveal shows them" in printed
    assert "files of a kind that is not read (.docx): 1" in printed
    assert run([*arguments, "--ocr", "never", "--reveal"]) == 0
    revealed = capsys.readouterr().err
    assert "secret.pdf" in revealed
    assert "masked" not in revealed
    assert re.search(r"Screenshot at 3.45.PM.pdf.*damaged", revealed)


def test_what_is_left_out_is_counted_where_values_are_proposed(folder: Path, capsys: Any) -> None:
    (folder / "in/empty.pdf").touch()
    assert data_import(folder, "--ocr", "never", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["pages"], found["left_out"]) == (4, 1)


def test_pictures_of_documents_that_are_gone_are_removed_and_nothing_else(folder: Path) -> None:
    """As folders and files that a desktop puts there."""
    table = given(folder, "a.pdf,Acme,yes,billing@acme.example,")
    images = folder / "out/images"
    assert data_import(folder, "--ocr", "never", "--labels", table) == 0
    (images / "@eaDir").mkdir()
    (images / "Thumbs.db").touch()
    (folder / "in/c.png").unlink()
    before = set(images.iterdir())
    assert data_import(folder, "--ocr", "never", "--labels", table) == 0
    assert len(before - set(images.iterdir())) == 1
    assert {"@eaDir", "Thumbs.db"} <= {path.name for path in images.iterdir()}


def test_labels_can_be_corrected_and_another_folder_is_refused(folder: Path, capsys: Any) -> None:
    for member in ("yes", "no"):
        table = given(folder, f"a.pdf,Acme,{member},billing@acme.example,")
        assert data_import(folder, "--ocr", "never", "--labels", table) == 0
    assert open_corpus(folder / "out").membership == {"Acme": Membership.NON_MEMBER}
    assert data_import(folder, "--ocr", "never", "--labels", table, "--dpi", 72) == 4
    assert "other data or settings" in capsys.readouterr().err


def test_a_bad_table_leaves_nothing_behind(folder: Path) -> None:
    assert data_import(folder, "--labels", given(folder, "z.pdf,Acme,yes,a,b")) == 2
    assert data_import(folder, "--labels", folder / "missing.csv") == 4
    assert data_import(folder, "--accept") == 4
    assert data_import(folder, "--language", "klingon") == 4
    assert data_import(folder, "--region", "Utopia") == 4
    assert not (folder / "out").exists()


def test_a_killed_import_reads_no_page_again(folder: Path) -> None:
    for number in range(4):
        scan(folder / f"in/many/{number}.png", f"Total: {number}.50 plus {number}.25")
    table = given(folder, *(f"many/{number}.png,P{number},yes,,{number}.50" for number in range(4)))
    command = [sys.executable, "-c", "from pfl_audit.cli.main import main; main()", "data", "import", folder / "in"]
    command += ["--out", folder / "out", "--labels", table, "--processes", "1", "-q"]
    process = subprocess.Popen([*map(str, command)])
    cache = folder / "out/cache"
    deadline = time.monotonic() + 120
    while (len(read := list(cache.rglob("*.json"))) < 3) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 3 <= len(read) < 8
    read = list(cache.rglob("*.json"))
    before = {file: file.stat().st_mtime_ns for file in read}
    assert subprocess.run([*map(str, command)], check=False).returncode == 0
    assert {file: file.stat().st_mtime_ns for file in read} == before
    assert len(open_corpus(folder / "out").documents) == 4


def test_a_data_set_is_recognised(folder: Path, capsys: Any) -> None:
    assert data_import(folder, "--ocr", "never", "--labels", given(folder, "a.pdf,Acme,yes,a@b.example,")) == 0
    again = ["data", "import", str(folder / "out"), "--out", str(folder / "again")]
    assert run(again) == 0
    assert "is in the format jsonl" in capsys.readouterr().err
    assert run([*again[:-1], str(folder / "quiet"), "-q"]) == 0
    assert capsys.readouterr().err == ""
    assert run([*again, "--dpi", "72"]) == 4
    assert run(["data", "import", str(folder / "missing"), "--out", str(folder / "third")]) == 4
    (folder / "empty").mkdir()
    assert run(["data", "import", str(folder / "empty"), "--out", str(folder / "third")]) == 2
    assert "neither a data set" in capsys.readouterr().err


def test_pages_whose_layer_and_picture_differ_are_named(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "in").mkdir()
    hidden(tmp_path / "in/bar.pdf", "bar")
    stamped(tmp_path / "in/stamp.pdf", "TOTAL 99.50", "HM000123 Page 1 of 3")
    assert run(["data", "import", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    assert "BELOW A BAR: they are still in the file: 1 (bar.pdf page 1)" in said
    assert "are scans with a few words of text over them: 1 (stamp.pdf page 1)" in said
    assert "hidden words" not in said
    assert "99.50" in (tmp_path / "out/labels.csv").read_text()


def test_words_of_a_layer_are_added_where_an_engine_read_none() -> None:
    read = ["TOTAL", "HMOOO123"], [[0.1, 0.1, 0.3, 0.2], [0.1, 0.8, 0.3, 0.9]]
    layer = ["HM000123", "faint"], [[0.1, 0.82, 0.28, 0.88], [0.6, 0.8, 0.7, 0.9]]
    words, boxes = joined(read, layer)
    assert words == ["TOTAL", "HMOOO123", "faint"]
    assert boxes == as_boxes([*read[1], layer[1][1]], 3).tolist()


def test_an_audit_of_documents_points_to_their_import(folder: Path, capsys: Any) -> None:
    assert run(["data", "check", str(folder / "in")]) == 2
    assert f"Run: pfl-audit data import {folder / 'in'} --out CORPUS" in capsys.readouterr().err
