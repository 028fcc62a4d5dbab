import json
from pathlib import Path

import openpyxl
import pytest

from pfl_audit.documents.document import Membership
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.importing.labels import Labels, Row, read_labels, write_labels

FILES = {"a.pdf", "sub/b.png"}
HEAD = "file,provider,member,split,total_amount\n"


def table(folder: Path, content: str, name: str = "labels.csv") -> Path:
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def test_a_row_has_labels_and_accepted_answers(tmp_path: Path) -> None:
    content = HEAD + "a.pdf,Acme,yes,train,12.50|$12.50\n./sub/b.png,Other,no,,\n"
    found = read_labels(table(tmp_path, content), FILES)
    assert found == Labels(
        {
            "a.pdf": Row("a.pdf", "Acme", Membership.MEMBER, "blue_train", {"total_amount": ("12.50", "$12.50")}),
            "sub/b.png": Row("sub/b.png", "Other", Membership.NON_MEMBER),
        },
        has_values=True,
    )


def test_accents_and_backslashes_of_another_system_name_the_same_file(tmp_path: Path) -> None:
    composed, decomposed = "caf\u00e9/\u00fc.pdf", "cafe\u0301/u\u0308.pdf"  # as spreadsheets write it, and as macOS
    content = HEAD + "caf\u00e9\\\u00fc.pdf,Acme,yes,,1\n"
    for name in (composed, decomposed):
        assert list(read_labels(table(tmp_path, content), {name}).rows) == [name]
    with pytest.raises(AuditError, match="row 2: the folder has no such file"):
        read_labels(table(tmp_path, content), {composed, decomposed})


def test_spreadsheets_and_json_lines_say_the_same_as_csv(tmp_path: Path) -> None:
    rows = [["File", "Provider", "Member", "Net weight"], ["a.pdf", "Acme", "yes", 12.0], [None, None, None, None]]
    book = openpyxl.Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    book.save(tmp_path / "labels.xlsx")
    table(tmp_path, "file;provider;member;net weight\na.pdf;Acme;yes;12\n")
    row = {"file": "a.pdf", "provider": "Acme", "member": True, "net_weight": 12}
    table(tmp_path, json.dumps(row) + "\n\n", "labels.jsonl")
    found = [read_labels(tmp_path / f"labels.{kind}", FILES) for kind in ("csv", "xlsx", "jsonl")]
    assert found[0].rows["a.pdf"].values == {"net_weight": ("12",)}
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("first", ["sep=;\n", "SEP=;\r\n", "\ufeffsep=;;;;\r\n", '"sep=;"\n'])
def test_the_delimiter_that_excel_states(tmp_path: Path, first: str) -> None:
    rows = "file;provider;member;total,net\na.pdf;Acme, Inc;yes;1,5\n"
    found = read_labels(table(tmp_path, first + rows), FILES)
    assert found == read_labels(table(tmp_path, rows), FILES)
    assert found.rows["a.pdf"].values == {"total,net": ("1,5",)}
    with pytest.raises(AuditError, match="row 3: the folder has no such file"):  # as Excel numbers it
        read_labels(table(tmp_path, first + rows + "c.pdf;Acme;yes;\n"), FILES)
    with pytest.raises(AuditError, match="no column 'file'"):
        read_labels(table(tmp_path, first), FILES)


def test_keys_of_json_lines_are_named_as_columns_are(tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text('{"File": "a.pdf", " Net Weight": 3}\n')
    assert read_labels(path, FILES).rows["a.pdf"].values == {"net_weight": ("3",)}
    for twice in ('"total": 1, "Total": 2', '"": 1'):
        path.write_text(f'{{"file": "a.pdf", {twice}}}\n')
        with pytest.raises(AuditError, match="row 1: it has a key without a name, or two of one name"):
            read_labels(path, FILES)


def test_a_value_of_json_lines_may_hold_a_separator_of_lines(tmp_path: Path) -> None:
    row = {"file": "a.pdf", "provider": "Acme", "total": "1\u2028\x852"}
    path = table(tmp_path, json.dumps(row, ensure_ascii=False) + "\r\n", "labels.jsonl")
    assert read_labels(path, FILES).rows["a.pdf"].values == {"total": ("1\u2028\x852",)}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (HEAD + "../a.pdf,Acme,yes,,1\n", "row 2: the folder has no such file"),
        (HEAD + "a.pdf,Acme,yes,,1\na.pdf,Acme,yes,,2\n", "row 3: an earlier row has its file"),
        (HEAD + "a.pdf,Acme,yes,,1\nsub/b.png,Acme,no,,2\n", "row 3: its provider has another membership"),
        (HEAD + "a.pdf,Acme,perhaps,,1\n", "row 2: membership is none of"),
        (HEAD + ",Acme,yes,,1\n", "row 2: file is empty"),
        (HEAD + "a.pdf,Acme,yes,,1\n\n\n,Acme,yes,,1\n", "row 5: file is empty"),
        (HEAD + "a.pdf,Acme,yes,,1,9\n", "row 2: it has more cells than columns"),
        (HEAD + f"a.pdf,Acme,yes,,{'1' * 1001}\n", "row 2: a value is longer"),
        (HEAD + 'a.pdf,"Acme,yes,,1\n', "no row of a CSV file"),
        (HEAD + "a.pdf,Ac\0me,yes,,1\n", "zero bytes"),
        ("file,total,Total\na.pdf,1,2\n", "two of one name"),
        ("name,total\na.pdf,1\n", "no column 'file'"),
        (HEAD, "holds no row"),
        ("", "no column 'file'"),
        ("file,memebr,total\na.pdf,yes,1\n", "a column 'memebr', almost 'member'"),
        ("file,Splits,total\na.pdf,train,1\n", "a column 'splits', almost 'split'"),
    ],
)
def test_a_bad_table_is_one_line_that_names_the_row_and_no_value(tmp_path: Path, content: str, says: str) -> None:
    with pytest.raises(AuditError) as error:
        read_labels(table(tmp_path, content), FILES)
    assert says in error.value.problem
    assert "Acme" not in str(error.value)


@pytest.mark.parametrize("forged", [None, 3, ["file"], [["file"], [3]], [["file"], None]])
def test_a_forged_spreadsheet_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forged: object) -> None:
    monkeypatch.setattr("pfl_audit.importing.labels.call_sandboxed", lambda *_, **__: forged)
    with pytest.raises(AuditError, match="it is no spreadsheet"):
        read_labels(table(tmp_path, "", "labels.xlsx"), FILES)


@pytest.mark.parametrize("word", ["ja", "Oui", "sí", "TRUE", "y"])
def test_a_table_of_a_european_spreadsheet_is_read(tmp_path: Path, word: str) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes(f"file;provider;member;total\na.pdf;Café Müller;{word};1.234,50 €\n".encode("cp1252"))
    row = read_labels(path, FILES).rows["a.pdf"]
    assert (row.provider, row.membership, row.values["total"]) == ("Café Müller", Membership.MEMBER, ("1.234,50 €",))
    for other in (
        b"\x81",
        b"\xff\xfe",
        "Żółć Łódź".encode("cp1250"),
        "Ромашка".encode("cp1251"),
        "Müller".encode() + b"\xe9",
    ):
        path.write_bytes(b"file;total\na.pdf;" + other + b"\n")
        with pytest.raises(AuditError, match="neither UTF-8 nor Windows-1252"):
            read_labels(path, FILES)


@pytest.mark.parametrize("key", ["fine", "filer", "persons"])
def test_a_key_beside_the_special_column_that_it_is_like_is_a_key(tmp_path: Path, key: str) -> None:
    rows = read_labels(table(tmp_path, f"file,person,{key}\na.pdf,Ada,12\n"), FILES).rows
    assert rows["a.pdf"].values == {key: ("12",)}


def test_a_table_that_is_missing_is_a_usage_error(tmp_path: Path) -> None:
    for name in ("labels.csv", "labels.xlsx", "labels.jsonl"):
        with pytest.raises(UsageError):
            read_labels(tmp_path / name, FILES)


def test_a_written_table_is_private_has_no_formula_and_reads_back(tmp_path: Path) -> None:
    values: dict[str, tuple[str, ...]] = {
        "total_amount": ("=cmd()|x",),
        "provider_phone": ("+1 202 555 0107",),
        "note": ("-1", "@a"),
    }
    values["total_amount"] = ("=cmd()",)
    row = Row("a.pdf", '=HYPERLINK("http://x")', Membership.MEMBER, "", values, True, "Ada", "@Holding")
    write_labels(tmp_path / "labels.csv", [row], list(values))
    assert (tmp_path / "labels.csv").stat().st_mode & 0o777 == 0o600
    written = (tmp_path / "labels.csv").read_text()
    assert "'=cmd()" in written
    assert ",=" not in written
    assert ",+" not in written
    assert read_labels(tmp_path / "labels.csv", FILES).rows == {"a.pdf": row}


def test_blanks_of_a_name_are_kept_and_those_around_a_cell_are_not(tmp_path: Path) -> None:
    """A file may be named with a blank at its ends, and the table that the importer wrote names it so."""
    rows = [Row(name, "Acme", Membership.MEMBER) for name in (" a.pdf", "b.pdf ")]
    write_labels(tmp_path / "labels.csv", rows, [])
    assert [*read_labels(tmp_path / "labels.csv", {" a.pdf", "b.pdf "}).rows] == [" a.pdf", "b.pdf "]
    typed = table(tmp_path, HEAD + " a.pdf ,Acme,yes,,\n ./sub/b.png,Acme,yes,,\n", "typed.csv")
    assert [*read_labels(typed, FILES).rows] == ["a.pdf", "sub/b.png"]
