"""Audits side by side, as data, as a page, and in the terminal."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfl_audit.cli.main import run
from pfl_audit.core.comparison import compare
from pfl_audit.core.metric import build_metric
from pfl_audit.core.resamples import keep_resamples
from pfl_audit.core.results import (
    Check,
    Data,
    Finding,
    Gate,
    Metric,
    Provenance,
    Results,
    Target,
    Verdict,
    read_results,
    write_results,
)
from pfl_audit.errors import UsageError
from pfl_audit.metrics.intervals import bootstrap_weights, estimate
from pfl_audit.reports.comparison import to_html

UTILITY = "memorization.generalisation"


def check(name: str, value: float | None, level: Any = "leak") -> Check:
    if value is None:
        return Check(id=name, family="x", title=name.title(), status="skipped", reason="nobody to ask")
    metric = Metric(
        name="accuracy", format="percent", value=value, ci=(value - 0.1, value + 0.1), chance=0.5, slice={"s": 5}
    )
    finding = Finding(level=level, text="found", remedy="", metric="accuracy", slice={"s": 5})
    utility = [
        Metric(name=score, format="percent", role="utility", value=value / 2, ci=(0.1, 0.9), slice={"model": "target"})
        for score in ("ACC", "ANLS")
    ]
    metrics = utility if name == UTILITY else [metric]
    return Check(id=name, family="x", title=name.title(), status="ran", metrics=metrics, finding=finding)


def audit(title: str, *checks: Check, data: str = "0" * 64, subject: str = "questions") -> Results:
    return Results(
        title=title,
        verdict=Verdict(status="leaks", gate=Gate(fail_on="leak", over=[]), summary=""),
        target=Target(family="vt5", path=title, sha256="0" * 64, parameters=3),
        datasets=[Data(subject=subject, format="x", path="x", sha256=data, documents=2, queries=2)],
        checks=list(checks),
        provenance=Provenance(
            command="", version="0", packages={}, seed=0, started="", seconds=0.0, resumed=False, revealed=False
        ),
    )


def test_rows_are_the_checks_and_columns_the_audits() -> None:
    first = audit("first", check(UTILITY, 0.8), check("azk", 0.9), check("apk", 0.7, "none"))
    second = audit("second", check("azk", None), check("vote", 0.6, "weak"))
    found = compare([(first, Path("a")), (second, Path("b"))])
    assert [column.title for column in found.columns] == ["first", "second"]
    assert [row.title for row in found.utility] == ["ACC on new pages", "ANLS on new pages"]
    assert [cell.number for cell in found.utility[0].cells] == ["40.0 %", "–"]
    by_title = {row.title: row for row in found.checks}
    assert list(by_title) == [UTILITY.title(), "Azk", "Apk", "Vote"]
    azk = by_title["Azk"]
    assert (azk.cells[0].number, azk.cells[0].interval, azk.cells[0].level) == ("90.0 %", "[80.0, 100.0]", "leak")
    assert (azk.cells[1].number, azk.cells[1].note, azk.cells[1].level) == ("–", "nobody to ask", None)
    assert azk.chance == "50.0 %"
    assert by_title["Vote"].cells[0].note == "not asked for"
    assert ["unpaired" in note for note in found.notes] == [True]


def test_chance_is_that_of_every_number_of_a_row() -> None:
    """Two audits of one check may rest on different metrics."""
    one = check("azk", 0.9)
    other = one.model_copy(update={"metrics": [one.metrics[0].model_copy(update={"format": "decimal"})]})
    found = compare([(audit("a", one), Path("a")), (audit("b", other), Path("b"))])
    assert found.checks[0].chance == "50.0 %, 0.500"


def test_audits_of_other_documents_are_not_held_against_each_other() -> None:
    found = compare([(audit("a"), Path("a")), (audit("b", data="1" * 64), Path("b"))])
    assert "cannot be held against each other" in found.notes[0]
    assert compare([(audit("a"), Path("a")), (audit("b", subject="forms"), Path("b"))]).notes


def test_what_got_worse_comes_first_with_its_interval() -> None:
    before = audit("before", check("same", 0.6), check("better", 0.9), check("worse", 0.5, "none"))
    after = audit("after", check("same", 0.61), check("better", 0.5, "none"), check("worse", 0.9))
    rows = compare([(before, Path("a")), (after, Path("b"))]).checks
    assert [(row.title, row.direction) for row in rows] == [
        ("Worse", "worse"), ("Better", "better"), ("Same", "unclear"),
    ]  # fmt: skip
    change = rows[0].changes[1]
    assert rows[0].changes[0] is None
    assert change is not None
    assert (change.number, change.interval) == ("+40.0 points", "[+25.9, +54.1]")  # 0.4 ± hypot(0.1, 0.1)


def test_findings_that_rest_on_different_metrics_are_compared_by_level() -> None:
    other = check("azk", 0.9)
    renamed = other.metrics[0].model_copy(update={"name": "AUC"})
    finding = Finding(level="none", text="", remedy="", metric="AUC", slice={"s": 5})
    after = audit("after", other.model_copy(update={"metrics": [renamed], "finding": finding}))
    change = compare([(audit("before", other), Path("a")), (after, Path("b"))]).checks[0].changes[1]
    assert change is not None
    assert (change.direction, change.number) == ("better", "")
    assert change.note == "they rest on different metrics, so the levels alone are compared"


def test_one_metric_of_two_attacks_is_of_different_attacks() -> None:
    """Two AUCs that are printed side by side are no different metrics."""
    made = []
    for attack in ("ratio", "residual"):
        one, where = check("azk", 0.9), {"attack": attack}
        found = Finding(level="leak", text="", remedy="", metric=one.metrics[0].name, slice=where)
        number = one.metrics[0].model_copy(update={"slice": where})
        made.append((audit(attack, one.model_copy(update={"metrics": [number], "finding": found})), Path(attack)))
    change = compare(made).checks[0].changes[1]
    assert change is not None
    assert change.note == "they rest on different attacks, so the levels alone are compared"


def test_a_number_without_an_interval_is_compared_by_level_and_said_to_have_none() -> None:
    one = check("azk", 0.9)
    bare = one.model_copy(update={"metrics": [one.metrics[0].model_copy(update={"ci": None})]})
    change = compare([(audit("a", one), Path("a")), (audit("b", bare), Path("b"))]).checks[0].changes[1]
    assert change is not None
    assert (change.direction, change.note) == (
        "unclear", "a number has no interval, so the levels alone are compared",
    )  # fmt: skip


@pytest.mark.parametrize("part_of", [None, "azk"])
def test_attacks_with_different_settings_say_nothing_of_the_models(part_of: str | None) -> None:
    """The number is shown, with the settings; those of a part are those of its finding."""

    def made(value: float, **settings: Any) -> list[Check]:
        one = check("azk", value)
        if part_of is None:
            return [one.model_copy(update={"settings": settings})]
        return [one, check("vote", value).model_copy(update={"part_of": part_of, "settings": settings})]

    before, same, other = (
        audit(name, *made(value, iterations=iterations, alpha=alpha))
        for name, value, iterations, alpha in (("a", 0.9, 600, 0.05), ("b", 0.5, 600, 0.01), ("c", 0.5, 20, 0.05))
    )
    row = compare([(before, Path("a")), (same, Path("b")), (other, Path("c"))]).checks[0]
    _, as_before, weaker = row.changes
    assert as_before is not None
    assert weaker is not None
    assert (as_before.direction, as_before.note) == ("better", "")
    assert (weaker.direction, weaker.number) == ("unclear", as_before.number)
    assert weaker.note == "the attack ran with other settings (iterations), so the change may be theirs"


def test_nothing_changes_between_audits_of_other_documents() -> None:
    first, second = audit("a", check("azk", 0.5)), audit("b", check("azk", 0.9), data="1" * 64)
    found = compare([(first, Path("a")), (second, Path("b"))])
    assert found.checks[0].changes == ()
    assert not any("unpaired" in note for note in found.notes)


def drawn_audit(folder: Path, shares: Any, seed: int = 0) -> tuple[Results, Path]:
    """An audit of 40 providers by their shares of right answers, with its resamples kept."""
    weights = bootstrap_weights(np.zeros(len(shares), dtype=bool), np.random.default_rng(seed))
    found = estimate(shares.mean(), weights @ shares / len(shares))
    about = {"model": "target"}
    metric = build_metric("accuracy", found, format="percent", n=len(shares), about=about)
    finding = Finding(level="leak", text="", remedy="", metric="accuracy", slice=about)
    made = audit("a", Check(id="azk", family="x", title="Azk", status="ran", metrics=[metric], finding=finding))
    made = made.model_copy(update={"provenance": made.provenance.model_copy(update={"seed": seed})})
    write_results(made, folder)
    keep_resamples(made.checks, made.provenance, folder)
    return read_results(folder), folder


def test_audits_of_the_same_documents_and_seed_are_paired_over_providers(tmp_path: Path) -> None:
    before = np.random.default_rng(1).uniform(size=40)
    after = before + 0.02 + np.random.default_rng(2).normal(0, 0.01, size=40)
    first, second = drawn_audit(tmp_path / "a", before), drawn_audit(tmp_path / "b", after)
    change = compare([first, second]).checks[0].changes[1]
    assert change is not None
    assert (change.paired, change.direction) == (True, "worse")
    # The standard error of a paired mean difference is 0.2 points, too small for two printed decimals: half-widths.
    assert change.size == pytest.approx(
        (after - before).mean() / (1.96 * (after - before).std() / np.sqrt(40)), rel=0.1
    )
    other = drawn_audit(tmp_path / "c", after, seed=1)
    apart = compare([first, other]).checks[0].changes[1]
    assert apart is not None
    assert (apart.paired, apart.direction) == (False, "unclear")


@pytest.mark.parametrize("content", ["", "[]", '{"started": "", "seed": 0, "numbers": [{"check": 1}]}', "other"])
def test_resamples_that_cannot_be_used_are_left_out(content: str, tmp_path: Path) -> None:
    shares = np.random.default_rng(1).uniform(size=40)
    first, second = drawn_audit(tmp_path / "a", shares), drawn_audit(tmp_path / "b", shares / 2)
    kept = tmp_path / "b/private/resamples.json"
    kept.write_text(kept.read_text().replace('"started": ""', '"started": "2020"') if content == "other" else content)
    change = compare([first, second]).checks[0].changes[1]
    assert change is not None
    assert not change.paired


def test_resamples_are_no_part_of_results(tmp_path: Path) -> None:
    made, folder = drawn_audit(tmp_path / "a", np.random.default_rng(1).uniform(size=40))
    assert "resamples" not in (folder / "results.json").read_text()
    assert (folder / "private/resamples.json").stat().st_mode & 0o077 == 0
    assert made == read_results(folder)


def test_one_audit_is_no_comparison() -> None:
    with pytest.raises(UsageError, match="two audits or more"):
        compare([(audit("a"), Path("a"))])


def test_what_comes_from_elsewhere_is_escaped(tmp_path: Path) -> None:
    hostile = audit("<script>alert(1)</script>", check("azk", 0.9))
    page = to_html(compare([(hostile, tmp_path / "a"), (audit("b"), tmp_path / "b")]), tmp_path)
    assert "<script>alert" not in page
    assert "&lt;script&gt;" in page
    assert 'href="a/report.html"' in page


def test_the_command_writes_the_page_and_prints_the_table(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        write_results(audit(f"model {name}\x1b[2J", check("azk", 0.9)), tmp_path / name)
    out = tmp_path / "sides.html"
    assert run(["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(out)]) == 0
    shown = capfd.readouterr().out
    assert "90.0 % [80.0, 100.0]" in shown
    assert "\x1b[2J" not in shown
    assert out.is_file()
    assert out.stat().st_mode & 0o077 == 0
    assert run(["compare", str(tmp_path / "a"), "--out", str(out)]) == 4


def test_a_folder_named_like_a_script_is_a_link_to_a_folder(tmp_path: Path) -> None:
    page = to_html(compare([(audit("a"), tmp_path / "javascript:alert(1)"), (audit("b"), tmp_path / "b")]), tmp_path)
    assert 'href="javascript%3Aalert%281%29/report.html"' in page
