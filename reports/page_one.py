"""Page one: what was audited against whom, what comes out, how serious it is, what to do, what was not tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pfl_audit.core.audit_verdict import audited, is_utility
from pfl_audit.core.published import labels
from pfl_audit.core.results import Check, Results
from pfl_audit.reports.coverage import BESIDES, coverage
from pfl_audit.reports.marks import mark_of
from pfl_audit.reports.risk import Risk, risk_of

RELEASES: Final = {
    "public-api": "Everybody who can ask the model questions (declared: public interface).",
    "internal": "Staff who can ask the model questions (declared: internal use).",
    "open-weights": "Everybody, with the model's weights in hand (declared: open weights).",
    None: "Not declared. Every attacker is taken to have what the attack needs; declare who can reach the model with "
    "--release.",
}
_HEADS: Final = {
    "leaks": "{} gives away training data",
    "no-evidence": "No evidence that {} gives away training data",
    "incomplete": "The audit of {} is incomplete",
}
_SIGNS: Final = "Signs, but no proof, that {} gives away training data"
"""In place of "no evidence" where a finding is a weak sign of more than how well the model reads."""
_MOST_TITLES: Final = 4
_LETTERS: Final = 26
_IN_A_ROW: Final = 4
_LEVELS: Final = ("leak", "weak", "none", "unresolved")


@dataclass(frozen=True)
class LetteredFinding:
    """A finding on page one.

    Attributes:
        letter: Name of the finding on the page.
        sentence: Sentence without technical terms, or the finding's own text where there is none.
    """

    letter: str
    check: Check
    mark: str
    sentence: str
    risk: Risk


@dataclass(frozen=True)
class Remedy:
    """An action, and the findings that it is against."""

    text: str
    against: tuple[str, ...]


@dataclass(frozen=True)
class Missing:
    """Checks that did not run or are unresolved, for one reason."""

    titles: str
    reason: str
    mark: str


@dataclass(frozen=True)
class PageOne:
    """Answers to the five questions.

    Attributes:
        headline: True to what was audited.
        caveats: What findings do not say.
        as_published: Which settings are the papers', by attack.
        against: Whom it was audited against.
        findings: Worst risk first.
        remedies: Actions, most effective first, each once.
        missing: What was asked for and did not run or was not resolved.
        uncovered: Classes of attacks of which nothing ran, by the reason, as (classes, reason).
        not_run: Number of checks that did not run.
    """

    headline: str
    caveats: tuple[str, ...]
    as_published: tuple[str, ...]
    against: str
    findings: tuple[LetteredFinding, ...]
    remedies: tuple[Remedy, ...]
    missing: tuple[Missing, ...]
    uncovered: tuple[tuple[str, str], ...]
    not_run: int

    def at(self, severity: int, likelihood: int) -> str:
        """Letters of the findings of a cell of the map of risks."""
        wanted = (severity, likelihood)
        return " ".join(
            spans([one.letter for one in self.findings if (one.risk.severity, one.risk.likelihood) == wanted])
        )


def page_one(results: Results) -> PageOne:
    """Arrange the answers."""
    findings = _lettered(results)
    name = audited_name(results)
    signs = results.verdict.status == "no-evidence" and any(
        one.mark == "weak" and not is_utility(one.check) for one in findings
    )
    head = (_SIGNS if signs else _HEADS[results.verdict.status]).format(name)
    return PageOne(
        headline=f"{head[:1].upper()}{head[1:]}",
        caveats=tuple(dict.fromkeys(data.caveat for data in results.datasets if data.caveat)),
        as_published=labels(results),
        against=RELEASES[results.release],
        findings=findings,
        remedies=_remedies(findings),
        missing=_missing(results, {one.check.id: one.letter for one in findings}),
        uncovered=_uncovered(results),
        not_run=sum(check.status != "ran" for check in results.checks),
    )


def audited_name(results: Results) -> str:
    """What was audited, in a sentence; a model that comes with this package is named as such."""
    name = audited(results.datasets, results.checks)
    if not results.target.demonstration:
        return name
    return " and ".join(_embedded(one) for one in name.split(" and "))


def _embedded(name: str) -> str:
    kind = name.removeprefix("the ")
    if kind.startswith("protocol"):
        return f"the {kind} of the embedded demonstration model"
    return f"the embedded demonstration {kind}"


def _lettered(results: Results) -> tuple[LetteredFinding, ...]:
    findings = [
        LetteredFinding(
            "", check, check.finding.level, check.finding.plain or check.finding.text, risk_of(check, results)
        )
        for check in results.checks
        if check.status == "ran" and check.finding is not None
    ]
    findings.sort(key=lambda one: (*one.risk.order, _LEVELS.index(one.mark)))
    return tuple(replace(one, letter=_letter(place)) for place, one in enumerate(findings))


def _letter(place: int) -> str:
    return chr(ord("A") + place) if place < _LETTERS else f"F{place + 1}"


def _place(letter: str) -> int:
    return ord(letter) - ord("A") if len(letter) == 1 else int(letter[1:]) - 1


def spans(letters: Sequence[str]) -> list[str]:
    """Letters of findings in order, with four or more in a row as "A–D"."""
    rows: list[list[str]] = []
    for letter in letters:
        if rows and letter == _letter(_place(rows[-1][-1]) + 1):
            rows[-1].append(letter)
        else:
            rows.append([letter])
    return [name for row in rows for name in ([f"{row[0]}–{row[-1]}"] if len(row) >= _IN_A_ROW else row)]


def _remedies(findings: Sequence[LetteredFinding]) -> tuple[Remedy, ...]:
    """Against most leaks first; at the same number, in the order that the attacks give."""
    against: dict[str, list[str]] = {}
    leaks: dict[str, int] = {}
    places: dict[str, int] = {}
    for one in findings:
        finding = one.check.finding
        if finding is None or one.mark not in ("leak", "weak"):
            continue
        for place, text in enumerate(finding.remedies or ([finding.remedy] if finding.plain is None else [])):
            against.setdefault(text, []).append(one.letter)
            leaks[text] = leaks.get(text, 0) + (one.mark == "leak")
            places[text] = min(place, places.get(text, place))
    ordered = sorted(against, key=lambda text: (-leaks[text], places[text]))
    return tuple(Remedy(text, tuple(against[text])) for text in ordered)


def _missing(results: Results, letters: Mapping[str, str]) -> tuple[Missing, ...]:
    groups: dict[tuple[str, str], list[str]] = {}
    unresolved = [one for one in results.checks if mark_of(one) == "unresolved" and one.id in letters]
    open_ones = sorted((letters[one.id] for one in unresolved), key=_place)
    for check in results.checks:
        mark = mark_of(check)
        if check.status != "ran":
            reason = (check.reason or check.status).partition(BESIDES)[0]
            groups.setdefault((mark, reason), []).append(check.title)
        elif mark == "unresolved":
            reason = f"nothing can be said; see {', '.join(spans(open_ones))}" if check.id in letters else "no finding"
            groups.setdefault((mark, reason), []).append(check.title)
    return tuple(Missing(_titles(titles), reason, mark) for (mark, reason), titles in groups.items())


def _uncovered(results: Results) -> tuple[tuple[str, str], ...]:
    groups: dict[str, list[str]] = {}
    for row in coverage(results):
        if not row.ran:
            groups.setdefault(row.remark or "No check of this class ran.", []).append(row.name)
    return tuple((", ".join(names), reason) for reason, names in groups.items())


def _titles(titles: Sequence[str]) -> str:
    more = len(titles) - _MOST_TITLES
    return ", ".join(titles[:_MOST_TITLES]) + (f" and {more} more" if more > 0 else "")
