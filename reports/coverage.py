"""What an audit covers, by the classes of attacks and the documentation that EDPB Opinion 28/2024 names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, get_args

from pfl_audit.core.results import Check, Results
from pfl_audit.core.review import AttackClass

DISCLAIMER: Final = (
    "This is evidence about the attacks that were run. It determines neither whether the model is anonymous nor "
    "whether anything complies with the law. A passed test says nothing about other attacks."
)
BESIDES: Final = "; the audit has "
"""Begins what an audit has instead of what a check needs, which is in the annex."""
_NUMERALS: Final = ("i", "ii", "iii", "iv", "v")
_OUT_OF_SCOPE: Final = {
    "exfiltration": (
        "Out of scope: this version has no attack that copies the model or its data out of a system.",
        ("AML.T0024.002", "AML.T0025"),
    )
}
"""Classes of which nothing is part of this package, so that no attack declares them."""
_UNDECLARED: Final = "Not known: the attacks of this audit declare no class, as in results of an earlier version."


@dataclass(frozen=True)
class Covered:
    """A class of attacks.

    Attributes:
        numeral: As paragraph 55 counts it.
        ran: Checks with a finding or numbers.
        missing: Reasons why checks did not run, with their titles.
        remark: Sentence where no check of the class is part of the audit.
    """

    numeral: str
    name: str
    ran: tuple[Check, ...]
    missing: tuple[tuple[str, str], ...]
    remark: str
    nist: tuple[str, ...]
    atlas: tuple[str, ...]


@dataclass(frozen=True)
class Documented:
    """A piece of documentation.

    Attributes:
        place: Place in the opinion.
        supplied: What the report supplies, or empty.
        added: What the controller must add.
    """

    place: str
    what: str
    supplied: str
    added: str


def coverage(results: Results) -> tuple[Covered, ...]:
    """The classes of paragraph 55 in its order; each check declares its own."""
    return tuple(
        _covered(numeral, name, results) for numeral, name in zip(_NUMERALS, get_args(AttackClass), strict=True)
    )


def unclassified(results: Results) -> tuple[Check, ...]:
    """Checks whose attack declares no class, without those that are a baseline of another."""
    return tuple(check for check in results.checks if check.review is None and check.part_of is None)


def _covered(numeral: str, name: str, results: Results) -> Covered:
    own = [check for check in results.checks if check.review and name in check.review.classes]
    ran = tuple(check for check in own if check.status == "ran" and check.part_of is None)
    missing: dict[str, list[str]] = {}
    for check in own:
        if check.status != "ran":
            missing.setdefault((check.reason or check.status).partition(BESIDES)[0], []).append(check.title)
    declared = any(check.review for check in results.checks)
    unknown = "No check of this class was asked for." if declared or not results.checks else _UNDECLARED
    remark, atlas = ("", ()) if own else _OUT_OF_SCOPE.get(name, (unknown, ()))
    reviews = [check.review for check in own if check.review]
    return Covered(
        numeral,
        name,
        ran,
        tuple((reason, ", ".join(titles)) for reason, titles in missing.items()),
        remark,
        tuple(dict.fromkeys(one for review in reviews for one in review.nist)),
        tuple(dict.fromkeys((*atlas, *(one for review in reviews for one in review.atlas)))),
    )


def documentation(results: Results) -> tuple[Documented, ...]:
    """The documentation of paragraphs 56 to 58: what this report supplies, and what the controller must add."""
    ran = sum(check.status == "ran" for check in results.checks)
    provenance = results.provenance
    return (
        Documented(
            "58", "Impact assessment and advice of the data protection officer", "", "Both, or why neither is needed"
        ),
        Documented(
            "58 (c)",
            "Technical measures, threat models, assessment of risks",
            f"Threat models of {ran} {'check' if ran == 1 else 'checks'} (annex) and the risks on page one",
            "Measures in operation, such as rate limits and filters, and who is let in",
        ),
        Documented("58 (e)", "Ratio of training data to parameters", *_ratio(results)),
        Documented(
            "58 (e)",
            "Metrics of the likelihood of re-identification",
            "Success with intervals and chance; false alarms and controls where an attack has them",
            "What else is known of the data subjects",
        ),
        Documented(
            "58 (e)",
            "Who tested when, how and how far",
            f"When ({provenance.started}), with what (pfl-audit {provenance.version}, seed {provenance.seed}), how far "
            "(the table above)",
            "Who tested, on whose order, and how often it is repeated",
        ),
        Documented(
            "58 (f)",
            "What those who deploy the model learn of the risk that remains",
            "Page one, which can be handed on",
            "Conditions of use",
        ),
    )


def _ratio(results: Results) -> tuple[str, str]:
    target = results.target
    data = (target.training_claim or {}).get("data")
    documents = data.get("documents") if isinstance(data, dict) else None
    if not target.parameters or not isinstance(documents, int | str) or isinstance(documents, bool) or not documents:
        return "", "Number of training documents (the checkpoint states none) and of parameters"
    said = f"{documents} documents to {target.parameters:,} parameters"  # a range where the report is masked
    if isinstance(documents, int):
        said = f"{documents:,} documents to {target.parameters:,} parameters: one document for "
        said += f"{target.parameters / documents:,.0f} parameters"
    return f"{said}, as the training record states", "Confirmation of the record"
