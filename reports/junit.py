"""JUnit XML: a check is a test case; a finding over the gate is a failure, and what did not run is no pass."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, indent, tostring

from pfl_audit.core.numbers import headline, in_format, interval, number
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Check, Results

_TEXT = 4_000


def to_junit(results: Results) -> str:
    """One suite of checks, and one of requirements and gates by number."""
    root = Element("testsuites", name="pfl-audit")
    checks = SubElement(root, "testsuite", name="checks", time=f"{max(0.0, results.provenance.seconds):.1f}")
    for check in results.checks:
        _check(checks, check, results)
    gate = results.verdict.gate
    gates = SubElement(root, "testsuite", name="gates", time="0")
    for name in gate.lacking:
        _add(_case(gates, "required", name), "error", "required, and not audited")
    for one in gate.numbers:
        case = _case(gates, one.check, one.gate)
        value = "" if one.compared is None else f"{in_format(one.compared, one.format)} ({one.end}) "
        if one.status == "failed":
            _add(case, "failure", f"{value}{one.reason or ''}")
        elif one.status == "not audited":
            _add(case, "error", f"not audited: {one.reason or ''}")
        else:
            _say(case, f"{one.status}: {value}{one.reason or ''}")
    for suite in (checks, gates):
        _count(suite)
    indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + tostring(root, encoding="unicode") + "\n"


def _check(suite: Element, check: Check, results: Results) -> None:
    case = _case(suite, check.family, check.id)
    found, level = headline(check), check.finding.level if check.finding else None
    text = f"{check.finding.text if check.finding else ''} {_numbers(check) if found else ''}".strip()
    if check.status == "failed":
        _add(case, "error", check.reason or "")
    elif check.status == "skipped":
        _add(case, "skipped", check.reason or "")
    elif check.id in results.verdict.gate.over:
        _add(case, "failure", text)
    elif level == "unresolved":
        _add(case, "skipped", f"unresolved: {text}")
    elif text:
        _say(case, f"{level}: {text}" if level else text)


def _numbers(check: Check) -> str:
    found = headline(check)
    return f"{found.name}: {number(found)} {interval(found)}" if found else ""


def _case(suite: Element, group: str, name: str) -> Element:
    return SubElement(suite, "testcase", classname=_text(group), name=_text(name), time="0")


def _add(case: Element, kind: str, message: str) -> None:
    SubElement(case, kind, message=_text(message), type=kind).text = _text(message)


def _say(case: Element, text: str) -> None:
    SubElement(case, "system-out").text = _text(text)


def _count(suite: Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for attribute, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(kind) is not None for case in cases)))


def _text(text: str) -> str:
    return visible(text, _TEXT)
