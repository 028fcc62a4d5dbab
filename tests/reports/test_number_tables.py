"""CSV and LaTeX of all numbers: what is in them, and that nothing in a text is obeyed."""

import csv
import io
import re

import pytest

from pfl_audit.core.results import Metric, PublishedNumber, Results
from pfl_audit.reports.csv_table import csv_text, to_csv
from pfl_audit.reports.latex import tex, to_latex
from tests.reports.made import HOSTILE, results

NUMBER = PublishedNumber(
    paper="A & B", table="Table 1", row="gap", check="a.leak", metric="ACC gap", value=9.39, spread=0.5
)
FORMULAS = ["=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", " =1", "|cmd", "\uff1d1"]


def with_paper(**more: object) -> Results:
    return results(published=[NUMBER], **more)


def rows(made: Results) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(made))))


def test_csv_has_every_number_with_interval_chance_and_the_papers() -> None:
    made = with_paper()
    found = rows(made)
    assert len(found) == sum(len(check.metrics) for check in made.checks)
    first, second = found[:2]
    assert (first["check"], first["value"], first["low"], first["high"]) == ("a.leak", "0.04", "0.01", "0.09")
    assert (first["paper"], first["table"], first["published value"], first["published spread"]) == (
        "A & B", "Table 1", "9.39", "0.5",
    )  # fmt: skip
    assert (second["chance"], second["published value"]) == ("0.0", "")


def test_csv_says_what_is_as_published_and_what_has_no_value() -> None:
    made = results()
    empty = Metric(name="AUC", value=None, note="too few")
    first = made.checks[0].model_copy(update={"as_published": "settings as published: x", "metrics": [empty]})
    row = rows(made.model_copy(update={"checks": [first]}))[0]
    assert (row["value"], row["note"], row["as published"]) == ("", "too few", "settings as published: x")


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_of_a_csv_is_a_formula(text: str) -> None:
    assert csv_text(text).startswith("'")
    made = results()
    first = made.checks[0].model_copy(update={"title": text})
    assert rows(made.model_copy(update={"checks": [first]}))[0]["attack"].startswith("'")


def test_a_number_below_zero_stays_a_number() -> None:
    assert csv_text("plain - text") == "plain - text"
    assert float(rows(results(value=-0.5))[0]["value"]) == -0.5


def test_latex_has_the_papers_number_in_the_row_of_ours() -> None:
    text = to_latex(with_paper())
    (line,) = [line for line in text.splitlines() if "9.39" in line]
    assert line == (r"ACC gap & +4.0 points & {[}+1.0, +9.0{]} &  & 9.39 \ensuremath{\pm} 0.5 (A \& B, Table 1) \\")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == len(results().checks)


@pytest.mark.parametrize("letter", list('\\{}$&#_%^~<>|"[]*`'))
def test_every_special_letter_is_escaped(letter: str) -> None:
    found = tex(f"a{letter}b")
    assert found not in (f"a{letter}b",)
    assert found.startswith("a")
    assert found.endswith("b")


def test_signs_of_our_own_slices_need_no_package() -> None:
    assert tex("confidence ≥ 0.9, Δ ≤ 1 – 2 ± 3, ε").isascii()


def test_hostile_texts_leave_the_table_as_it_is() -> None:
    """Braces balance, and a row has as many columns as its head, whatever a text holds."""
    text = to_latex(results(text=HOSTILE + r"\\ \input{/etc/passwd} \end{tabular} %"))
    plain = re.sub(r"\\[{}&%#$_]", "", text)
    assert plain.count("{") == plain.count("}")
    assert r"\input{/" not in text
    assert all(line.count(" & ") == 4 for line in plain.splitlines() if line.endswith("\\\\"))
