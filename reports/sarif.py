"""SARIF 2.1.0, as code scanning reads it: findings and failed gates as results, what did not run as notifications."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import quote

from pfl_audit.core.audit_verdict import exit_code
from pfl_audit.core.gates import matches
from pfl_audit.core.numbers import headline, in_format, interval, number
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Check, Results
from pfl_audit.core.schema import LimitResult

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS: Final = {"leak": "error", "weak": "warning"}
_SEVERITY: Final = {"leak": "7.5", "weak": "4.0", "gate": "7.0"}
"""``security-severity`` of rules: high for a leak and a failed gate, medium for a weak sign."""
_TEXT: Final = 2_000
_Json = dict[str, object]


def to_sarif(results: Results) -> str:
    """One run with a rule and a result for every finding, and one for every gate that is not kept."""
    place = location_of(results)
    found = [check for check in results.checks if check.finding and check.finding.level in _LEVELS]
    gates = [one for one in results.verdict.gate.numbers if one.status in ("failed", "waived", "as before")]
    rules: dict[str, _Json] = {}
    for check in found:
        rules[check.id] = _rule(check)
    for one in gates:
        rules.setdefault(f"gate/{one.check}", _gate_rule(one))
    names = list(rules)
    entries = [_finding(check, results, names, place) for check in found]
    entries += [_gate(one, results, names, place) for one in gates]
    run: _Json = {
        "tool": {
            "driver": {
                "name": "pfl-audit",
                "version": visible(results.provenance.version),
                "rules": list(rules.values()),
            }
        },
        "invocations": [_invocation(results)],
        "results": entries,
        "columnKind": "unicodeCodePoints",
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def location_of(results: Results) -> str:
    """Relative path that results are about: the configuration of the audit, else the model's card."""
    given = results.provenance.config or f"{results.target.path}/README.md"
    path = PurePosixPath(visible(given, 1000).replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z][\w+.-]*:", str(path)):
        path = PurePosixPath(re.sub(r"^[\w+.-]*:", "", path.name) or "audit.toml")
    return quote(str(path), safe="/")


def _rule(check: Check) -> _Json:
    level = check.finding.level if check.finding else "weak"
    return {
        "id": visible(check.id),
        "name": re.sub(r"\W+", "_", check.id),
        "shortDescription": {"text": _text(check.title)},
        "fullDescription": {"text": _text(check.threat_model.get("does", check.title))},
        "help": {"text": _text(check.finding.remedy if check.finding else "")},
        "defaultConfiguration": {"level": _LEVELS[level]},
        "properties": {"security-severity": _SEVERITY[level], "tags": ["security", "privacy", visible(check.family)]},
    }


def _gate_rule(one: LimitResult) -> _Json:
    return {
        "id": f"gate/{visible(one.check)}",
        "name": re.sub(r"\W+", "_", f"gate_{one.check}"),
        "shortDescription": {"text": _text(f"Gate by number on {one.check}")},
        "help": {"text": "The number has to keep the limit that the configuration states"},
        "defaultConfiguration": {"level": "error"},
        "properties": {"security-severity": _SEVERITY["gate"], "tags": ["security", "privacy", "gate"]},
    }


def _finding(check: Check, results: Results, names: list[str], place: str) -> _Json:
    found, gate = headline(check), results.verdict.gate
    shown = f" {found.name}: {number(found)} {interval(found)}".rstrip() if found else ""
    text = f"{check.finding.text if check.finding else ''}{shown}"
    level = check.finding.level if check.finding else "weak"
    entry = _entry(check.id, _LEVELS[level], text, names, place, [check.id])
    if check.id in gate.waived:
        entry["suppressions"] = _suppressions(results, check.id)
    if gate.baseline is not None:
        entry["baselineState"] = "unchanged" if check.id in gate.as_before else "new"
    return entry


def _gate(one: LimitResult, results: Results, names: list[str], place: str) -> _Json:
    value = "" if one.compared is None else f": {in_format(one.compared, one.format)} ({one.end})"
    key = [one.check, one.metric or one.gate, one.end]
    entry = _entry(f"gate/{one.check}", "error", f"{one.gate}{value}. {one.reason or ''}", names, place, key)
    if one.status == "waived":
        entry["suppressions"] = _suppressions(results, one.check)
    if results.verdict.gate.baseline is not None:
        entry["baselineState"] = "unchanged" if one.status == "as before" else "new"
    return entry


def _entry(rule: str, level: str, text: str, names: list[str], place: str, key: list[str]) -> _Json:
    """A result; its fingerprint is the same for every run that finds the same, whatever the numbers."""
    digest = hashlib.sha256(json.dumps([place, rule, *key]).encode()).hexdigest()
    return {
        "ruleId": visible(rule),
        "ruleIndex": names.index(rule),
        "level": level,
        "message": {"text": _text(text)},
        "locations": [
            {"physicalLocation": {"artifactLocation": {"uri": place}, "region": {"startLine": 1, "startColumn": 1}}}
        ],
        "partialFingerprints": {"pflAudit/v1": digest},
    }


def _suppressions(results: Results, check: str) -> list[_Json]:
    used = [one for one in results.verdict.gate.waivers if one.status == "used" and matches(one.check, check)]
    reasons = [f"{one.reason} ({one.name}, until {one.expires})" for one in used] or ["waived"]
    return [{"kind": "external", "status": "accepted", "justification": _text(reason)} for reason in reasons[:1]]


def _invocation(results: Results) -> _Json:
    code = exit_code(results.verdict)
    entry: _Json = {
        "executionSuccessful": code in (0, 1),
        "exitCode": code,
        "commandLine": _text(results.provenance.command),
        "toolExecutionNotifications": list(_notifications(results)),
    }
    with contextlib.suppress(ValueError):  # results from elsewhere
        entry["startTimeUtc"] = datetime.fromisoformat(results.provenance.started).strftime("%Y-%m-%dT%H:%M:%SZ")
    return entry


def _notifications(results: Results) -> Iterable[Mapping[str, object]]:
    """What did not run, failed, or is unresolved; never a result, which would look like a pass."""
    for check in results.checks:
        if check.status != "ran":
            yield _notice(check.id, "error" if check.status == "failed" else "note", f"{check.status}: {check.reason}")
        elif check.finding and check.finding.level == "unresolved":
            yield _notice(check.id, "warning", f"unresolved: {check.finding.text}")
    gate = results.verdict.gate
    for name in gate.lacking:
        yield _notice(name, "error", f"required, and not audited: {name}")
    for one in gate.numbers:
        if one.status == "not audited":
            yield _notice(one.check, "error", f"gate not audited: {one.gate}: {one.reason or ''}")


def _notice(name: str, level: str, text: str) -> Mapping[str, object]:
    return {"descriptor": {"id": visible(name)}, "level": level, "message": {"text": _text(text)}}


def _text(text: str) -> str:
    return visible(text, _TEXT).strip() or "–"
