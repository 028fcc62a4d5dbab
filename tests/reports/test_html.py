import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from pfl_audit.core.audit_verdict import decide
from pfl_audit.core.results import (
    Check,
    Curve,
    Data,
    Evidence,
    Finding,
    Metric,
    Provenance,
    Results,
    Table,
    Target,
)
from pfl_audit.reports.html import render, to_html

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"


def metric(name: str = "accuracy", **changes: object) -> Metric:
    values = {
        "name": name,
        "value": 0.66,
        "ci": (0.6, 0.71),
        "level": 0.95,
        "n": 136,
        "format": "percent",
        "chance": 0.5,
        "seeds": 5,
        "std": 0.01,
    }
    return Metric(**{**values, "slice": {"s": 5, "model": "target"}, **changes})  # type: ignore[arg-type]


def curve(kind: str, text: str, points: dict[str, list[float]]) -> Curve:
    return Curve(title=text, kind=kind, x_label="x", y_label="y", series=[{"name": text, **points}])  # type: ignore[arg-type]


def check(name: str = "membership.azk", text: str = "AZK", **changes: object) -> Check:
    values = {
        "id": name,
        "family": "membership",
        "title": text,
        "status": "ran",
        "threat_model": {"knows": text},
        "settings": {"x": text},
        "metrics": [
            metric(),
            metric(slice={"s": 5, "model": "pre-trained"}),
            metric("TPR at 1 % FPR", value=None, ci=None, note=text),
        ],
        "tables": [Table(title=text, columns=[text], rows=[[text], [None]], note=text)],
        "curves": [
            curve("roc", text, {"x": [0, 0.1, 1], "y": [0, 0.4, 1]}),
            curve("scatter", text, {"x": [0], "y": [1]}),
            curve("line", text, {"x": [0, 5], "y": [0.5, 0.6], "low": [0.4, 0.5], "high": [0.6, 0.7]}),
        ],
        "evidence": [Evidence(title=text, facts={text: text}, picture="evidence/page.jpg")],
        "finding": Finding(level="leak", text=text, remedy=text, metric="accuracy", slice={"s": 5, "model": "target"}),
    }
    return Check(**{**values, **changes})  # type: ignore[arg-type]


def results(*checks: Check, text: str = "Audit") -> Results:
    return Results(
        title=text,
        verdict=decide(checks, "leak"),
        target=Target(
            family="vt5", path=text, sha256="0" * 64, parameters=3, notes=[text], training_claim={"mode": text}
        ),
        datasets=[
            Data(
                subject="questions",
                format="jsonl",
                path=text,
                sha256="0",
                providers=2,
                members=1,
                non_members=1,
                documents=2,
                queries=3,
                problems=[text],
            )
        ],
        checks=list(checks),
        provenance=Provenance(
            command=text,
            version="0",
            packages={"x": text},
            seed=0,
            started="2026-01-01",
            seconds=1.0,
            resumed=False,
            revealed=False,
        ),
    )


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def tags(html: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = Tags()
    parser.feed(html)
    return parser.tags


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "evidence").mkdir()
    Image.new("RGB", (10, 10)).save(tmp_path / "evidence/page.jpg")
    return tmp_path


def test_hostile_text_is_text(folder: Path) -> None:
    html = to_html(
        results(check(text=HOSTILE), check("a.b", HOSTILE, status="failed", reason=HOSTILE), text=HOSTILE), folder
    )
    names = {tag for tag, _ in tags(html)}
    assert not names & {"iframe", "object", "embed", "link", "form", "base"}
    assert [tag for tag, _ in tags(html)].count("script") == 1
    for _, attributes in tags(html):
        assert not any(name.startswith("on") for name in attributes)
        assert all(str(attributes[name]).startswith(("data:", "#")) for name in ("src", "href") if name in attributes)


def test_nothing_is_fetched(folder: Path) -> None:
    html = to_html(results(check()), folder)
    outside = re.sub(r"data:[^\"]+", "", html)
    assert "http://" not in outside
    assert "https://" not in outside
    assert "default-src 'none'" in html
    assert "url(" not in outside
    assert "@import" not in outside


def test_the_same_results_give_the_same_bytes(folder: Path) -> None:
    one = results(check(), check("membership.apk", "APK"))
    assert to_html(one, folder) == to_html(one, folder)


def test_worst_comes_first_and_what_is_missing_is_listed(folder: Path) -> None:
    none = check("membership.b", "Second", finding=Finding(level="none", text="nothing", remedy="-"))
    skipped = check("membership.c", "Third", status="skipped", reason="no pre-trained model", finding=None)
    html = to_html(results(none, skipped, check()), folder)
    told = html[html.index("2. What comes out") : html.index("3. How serious")]
    assert told.index("AZK") < told.index("nothing")
    missing = html[html.index("5. What was not tested") : html.index("What do the checks")]
    assert "Third: no pre-trained model" in missing
    assert "1 of 3 checks did not run" in missing


def test_numbers_come_with_interval_chance_and_count(folder: Path) -> None:
    html = to_html(results(check()), folder)
    assert "66.0 % [60.0, 71.0]" in html
    assert "± 1.0 over 5 seeds, chance 50.0 %, 136 providers" in html


def test_pictures_outside_of_the_run_are_not_read(folder: Path) -> None:
    (folder.parent / "secret.jpg").write_bytes((folder / "evidence/page.jpg").read_bytes())
    item = Evidence(title="x", picture="../secret.jpg")
    html = to_html(results(check(evidence=[item])), folder)
    assert "data:image/jpeg" not in html


def test_the_file_is_for_the_owner_only(folder: Path) -> None:
    path = render(results(check()), folder)
    assert path.name == "report.html"
    assert path.stat().st_mode & 0o077 == 0


def test_a_report_without_any_check_renders(folder: Path) -> None:
    assert "The audit of the model is incomplete" in to_html(results(), folder)


def test_reference_models_are_listed_among_what_was_audited(folder: Path) -> None:
    found = results(check())
    assert "Reference models" not in to_html(found, folder)
    beside = [found.target.model_copy(update={"path": path}) for path in ("ref-1", "<b>ref-2")]
    html = to_html(found.model_copy(update={"references": beside}), folder)
    assert "<dt>Reference models</dt><dd><code>ref-1</code>, <code>&lt;b&gt;ref-2</code></dd>" in html


def test_letters_that_turn_text_around_or_cover_it_do_not_reach_a_page(folder: Path) -> None:
    text = "a\u202etxt.exe\u2066\x1b[2J e" + "\u0301" * 99 + "\x00"
    html = to_html(results(check(text=text), text=text), folder)
    assert "txt.exe" in html
    assert not set("\u202e\u2066\x1b\x00") & set(html)
    assert "\u0301" * 5 not in html


def test_a_masked_picture_asks_nobody_to_compare(folder: Path) -> None:
    facts = {"field": "•••"}
    shown, masked = (
        to_html(results(check(evidence=[Evidence(title="x", facts=some, picture="evidence/page.jpg")])), folder)
        for some in (facts, {**facts, "picture": "the empty form"})
    )
    assert "Compare what was hidden with what came back." in shown
    assert "Compare what was hidden" not in masked


def test_a_picture_that_cannot_be_shown_is_said(folder: Path) -> None:
    html = to_html(results(check(evidence=[Evidence(title="x", picture="evidence/gone.jpg")])), folder)
    assert "The picture is missing" in html


def test_a_check_without_a_finding_is_unresolved(folder: Path) -> None:
    html = to_html(results(check(finding=None)), folder)
    missing = html[html.index("5. What was not tested") : html.index("What do the checks")]
    assert "Unresolved" in missing


def test_numbers_that_share_no_slice_are_listed(folder: Path) -> None:
    metrics = [metric(f"m{n}", slice={"s": n}) for n in range(100)]
    html = to_html(results(check(metrics=metrics)), folder)
    assert "m7 · s = 7" in html
    assert html.count("<td") < 1000


def test_the_data_sets_of_all_subjects_are_printed(folder: Path) -> None:
    base = results(check())
    captions = Data(
        subject="captions", format="csv", path="lines.csv", sha256="1", documents=4, queries=5,
        facts={"Longest caption": "<b>40 words"}, terms={"Caption": "A line below a picture."}, problems=["line 7"],
    )  # fmt: skip
    html = to_html(base.model_copy(update={"datasets": [*base.datasets, captions]}), folder)
    assert "<dt>Asked about</dt><dd>2 pages of 2 companies" in html
    assert "<dt>Captions</dt><dd>4 documents, 5 queries</dd>" in html
    assert "<dt>Longest caption</dt><dd>&lt;b&gt;40 words</dd>" in html
    assert "<dt>Corpus (questions)</dt>" in html
    assert "<dt>Corpus (captions)</dt><dd>csv, <code>lines.csv</code>" in html
    assert "<dt>Caption</dt><dd>A line below a picture.</dd>" in html
    assert "2 records of the corpus could not be used" in html
    many = captions.model_copy(update={"unusable": {"the image <b> cannot be opened": 4999, "it has no answer": 1}})
    html = to_html(base.model_copy(update={"datasets": [*base.datasets, many]}), folder)
    assert "5,000 records of the corpus could not be used" in html
    assert "<dt>4,999</dt><dd>the image &lt;b&gt; cannot be opened</dd><dt>1</dt><dd>it has no answer</dd>" in html
    assert "5,000 records could not be used (annex)" in html
