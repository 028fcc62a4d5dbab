"""Results with one of everything that a gate decides, for tests of exports."""

from __future__ import annotations

import typing
from datetime import date
from typing import Any

from pfl_audit.core.audit_verdict import decide
from pfl_audit.core.results import Check, Data, Finding, Level, Metric, Provenance, PublishedNumber, Results, Target
from pfl_audit.core.schema import Baseline, LimitResult, WaiverRecord

TODAY = date(2026, 12, 1)
HOSTILE = "<b>\"'`|[x](javascript:1)\n\x1b[2J\x07\u202e]]>&amp;{{7*7}} \ufffe @everyone ://x # ~ \x7f"


def check(name: str, level: Level | None = None, status: str = "ran", text: str = "found", **more: Any) -> Check:
    metric = Metric(name="ACC gap", value=0.04, ci=(0.01, 0.09), format="points", chance=0.0)
    finding = Finding(level=level, text=text, remedy=text, metric="ACC gap") if level else None
    reason = None if status == "ran" else f"needs {text}"
    parts = {"title": text, "metrics": [metric], "finding": finding, "reason": reason, **more}
    return Check(id=name, family=name.split(".")[0], status=status, **parts)


def results(text: str = "found", value: float = 0.04, **more: Any) -> Results:
    """A leak, a weak sign, and one of everything else; the value of numbers decides nothing."""
    checks = [
        check("a.leak", "leak", text=text),
        check("a.weak", "weak", text=text),
        check("a.none", "none", text=text),
        check("a.unresolved", "unresolved", text=text),
        check("a.part", text=text),
        check("b.skipped", status="skipped", text=text),
        check("b.failed", status="failed", text=text),
        check("c.waived", "leak", text=text),
        check("c.known", "leak", text=text),
    ]
    moved = Metric(name="ACC gap", value=value, ci=(0.01, 0.09), format="points")
    checks[0] = checks[0].model_copy(update={"metrics": [moved]})
    checks[2] = checks[2].model_copy(update={"as_published": f"settings as published: {text}"})
    paper = PublishedNumber(paper=text, table=text, row=text, check="a.weak", metric="ACC gap", value=3.5)
    verdict = decide(checks, "leak")
    number: dict[str, Any] = {"gate": f"a.leak : gap <= 3 points {text}", "end": "upper", "limit": 0.03}
    gate = verdict.gate.model_copy(
        update={
            "over": ["a.leak"],
            "lacking": ["b.skipped"],
            "waived": ["c.waived"],
            "as_before": ["c.known"],
            "numbers": [
                LimitResult(check="a.leak", status="failed", compared=0.09, format="points", reason=text, **number),
                LimitResult(check="a.none", status="passed", compared=0.01, format="points", **number),
                LimitResult(check="b.*", status="not audited", reason=text, **number),
                LimitResult(check="c.waived", status="waived", compared=0.09, format="points", **number),
            ],
            "waivers": [WaiverRecord(check="c.*", reason=text, name=text, expires="2026-12-31", status="used")],
            "baseline": Baseline(path=text, sha256="0", started="2026-11-01", same_documents=True),
        }
    )
    made = Results(
        title=text,
        verdict=verdict.model_copy(update={"gate": gate}),
        target=Target(family="vt5", path="models/tuned", sha256="0" * 64, parameters=3),
        datasets=[Data(subject="questions", format="jsonl", path=text, sha256="0", documents=2, queries=3)],
        checks=checks,
        published=[paper],
        provenance=Provenance(
            command=text, version="0", packages={}, seed=0, started="2026-11-25T01:02:03+00:00", seconds=1.5,
            resumed=False, revealed=False, config="ci/audit.toml",
        ),
    )  # fmt: skip
    return made.model_copy(update=more)


def with_hostile_texts() -> typing.Iterator[tuple[str, Results]]:
    """Results with a hostile text in one field after another, found by walking what a model holds."""
    plain = results().model_dump(mode="json")
    for path in _texts(plain):
        changed = results().model_dump(mode="json")
        place = changed
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = HOSTILE
        try:
            yield ".".join(map(str, path)), Results.model_validate(changed)
        except ValueError:
            continue  # one of a few words that the schema has


def _texts(value: Any, path: tuple[Any, ...] = ()) -> typing.Iterator[tuple[Any, ...]]:
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _texts(item, (*path, number))
