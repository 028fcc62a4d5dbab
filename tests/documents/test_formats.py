"""Readers of corpora and of forms by entry point: the order of recognition, and those of other packages."""

import json
import sys
import textwrap
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from pfl_audit.documents.formats import recognise
from pfl_audit.documents.forms.readers import READERS as FORM_READERS
from pfl_audit.documents.forms.readers import open_forms, reader_of
from pfl_audit.documents.readers import READERS, open_corpus
from pfl_audit.documents.readers.json_lines import read_json_lines
from pfl_audit.errors import AuditError
from pfl_audit.registry import ExtensionWarning

SOURCE = """
    from pfl_audit.documents.corpus import Corpus, Problem
    from pfl_audit.documents.document import Document, Membership, Query, as_boxes
    from pfl_audit.documents.forms.form import Field, Form, FormCorpus

    def page(row):
        name, provider, text = row.split("\\t")
        words = tuple(text.split())
        return Document(name, provider, words, as_boxes([(0, 0, 1, 1)] * len(words), len(words)))

    class Table:
        name = "table"
        precedence = 5

        def recognises(self, path):
            return (path / "pages.tsv").is_file()

        def read(self, path, part):
            pages = [page(row) for row in (path / "pages.tsv").read_text().splitlines()]
            asked = [Query(f"{one.id}-q", one, "Who issued this?", (one.provider,), "provider_name") for one in pages]
            return Corpus(tuple(asked), {"Acme": Membership.MEMBER}, self.name, (Problem("row 9", "it is empty"),))

    class Sheets(Table):
        name = "sheets"

        def recognises(self, path):
            return (path / "sheets.tsv").is_file()

        def read(self, path):
            pages = [page(row) for row in (path / "sheets.tsv").read_text().splitlines()]
            return FormCorpus(tuple(Form(one, (Field("a", "answer", 0, 1),)) for one in pages), self.name)

    class Greedy(Table):
        name = "greedy"
        precedence = 1000

        def recognises(self, path):
            return True

    class Broken(Table):
        name = "broken"
        precedence = 0

        def recognises(self, path):
            raise ValueError("Acme")

    TABLE, SHEETS, GREEDY, BROKEN, NAMELESS = Table(), Sheets(), Greedy(), Broken(), object()
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Installs a package with the named readers, as pip leaves it."""

    def install(corpora: str = "", forms: str = "") -> None:
        folder = tmp_path / "site"
        info = folder / "other_formats-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / "other_formats.py").write_text(textwrap.dedent(SOURCE))
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-formats\nVersion: 1.0\n")
        groups = {"corpora": corpora.split(), "forms": forms.split()}
        text = [
            f"[pfl_audit.{group}]\n" + "\n".join(f"{name} = other_formats:{name.upper()}" for name in names)
            for group, names in groups.items()
        ]
        (info / "entry_points.txt").write_text("\n".join(text))
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, "other_formats", raising=False)

    return install


@pytest.fixture
def table(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "pages.tsv").write_text("a_1\tAcme\tAcme Media\nb_1\tBolt\tBolt Inc\n")
    return folder


def test_the_order_of_recognition_is_stated() -> None:
    order = {name: reader.precedence for name, reader in READERS.installed().items()}
    low, high = {"due": 10, "jsonl": 10, "donut": 20}, {"pfl-docvqa": 100, "funsd": 102, "sroie": 103}
    assert order == {**low, **high, "hugging-face": 110}
    order = {name: reader.precedence for name, reader in FORM_READERS.installed().items()}
    assert order == {"forms.jsonl": 10, "funsd": 20, "sroie": 30, "fcc-adbuy": 40}


def test_a_folder_of_two_formats_is_read_in_the_first(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").touch()
    (tmp_path / "imdb_train.npy").touch()
    (tmp_path / "docs.jsonl").touch()
    for name in ("annotations", "images", "box", "entities", "img"):
        (tmp_path / name).mkdir()
    found = []
    for name in ("corpus.jsonl", "imdb_train.npy"):
        reader = recognise(READERS, tmp_path)
        found.append(reader.name if reader else None)
        (tmp_path / name).unlink()
    (tmp_path / "forms.jsonl").touch()
    for name in ("forms.jsonl", "annotations", "box", "docs.jsonl"):
        forms = reader_of(tmp_path)
        found.append(forms.name if forms else None)
        (tmp_path / name).unlink() if (tmp_path / name).is_file() else (tmp_path / name).rmdir()
    assert found == ["jsonl", "pfl-docvqa", "forms.jsonl", "funsd", "sroie", "fcc-adbuy"]
    assert recognise(READERS, tmp_path) is reader_of(tmp_path) is None


def test_readers_of_another_package(install, table: Path) -> None:
    install(corpora="table", forms="sheets")
    corpus = open_corpus(table, "red")
    assert (corpus.format, corpus.members()) == ("table", ("Acme",))
    (table / "sheets.tsv").write_text("s_1\t\tName Ada\n")
    assert open_forms(table).format == "sheets"


def test_precedence_decides_between_packages(install, table: Path) -> None:
    install(corpora="greedy")
    (table / "corpus.jsonl").touch()
    reader = recognise(READERS, table)
    assert reader is not None
    assert reader.name == "jsonl"


@pytest.mark.parametrize("broken", ["broken", "nameless", "missing"])
def test_a_broken_reader_is_named_and_left_out(install, table: Path, broken: str) -> None:
    install(corpora=f"table {broken}", forms=broken)
    with pytest.warns(ExtensionWarning, match=f"the corpus reader '{broken}'.* is left out: ") as warned:
        assert open_corpus(table).format == "table"
    assert not any("Acme" in str(warning.message) for warning in warned)


def test_errors_list_the_installed_formats(install, tmp_path: Path) -> None:
    install(corpora="table", forms="sheets")
    names = "donut, due, funsd, hugging-face, jsonl, pfl-docvqa, sroie, table"
    with pytest.raises(AuditError, match=rf"no corpus in a known format \({names}\)"):
        open_corpus(tmp_path)
    with pytest.raises(AuditError, match=r"no forms in a known format \(fcc-adbuy, forms\.jsonl, funsd, sheets, sroie"):
        open_forms(tmp_path)


def test_data_commands_take_readers_of_another_package(install, table: Path, tmp_path: Path, capsys) -> None:
    install(corpora="table", forms="sheets")
    assert run(["data", "check", str(table), "-q", "--json"]) == 0
    assert [row["providers"] for row in json.loads(capsys.readouterr().out)["counts"]] == [2]
    out = tmp_path / "out"
    assert run(["data", "import", "table", str(table), "--out", str(out), "--json"]) == 0
    given = capsys.readouterr()
    assert json.loads(given.out)["pages"] == 2
    assert "left out: row 9: it is empty" in given.err
    assert open_corpus(out).digest == open_corpus(table).digest
    (table / "sheets.tsv").write_text("s_1\t\tName Ada\n")
    assert run(["data", "check", str(table), "-q", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["format"] == "sheets"


def test_import_names_the_sources(install, tmp_path: Path, capsys) -> None:
    install(corpora="table")
    assert run(["data", "import", "nothing", str(tmp_path), "--out", str(tmp_path / "out")]) == 4
    assert (
        "Choose one of: donut, due, fcc-adbuy, funsd, hugging-face, jsonl, pfl-docvqa, sroie, table"
        in capsys.readouterr().err
    )


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="there is no file that opens and cannot be read")
def test_a_file_that_the_disk_does_not_read_is_named() -> None:
    with pytest.raises(AuditError, match=r"^/proc/self/mem cannot be read: Input/output error"):
        next(read_json_lines(Path("/proc/self/mem"), ""))
