"""The corpus that is asked about: RED, or members and non-members given apart; and the training corpus."""

from __future__ import annotations

from pathlib import Path

from pfl_audit.attacks.questions.inputs import QuestionInputs
from pfl_audit.core.settings import InMemory
from pfl_audit.documents.corpus import Corpus, require_questions
from pfl_audit.documents.document import Membership
from pfl_audit.documents.group_table import with_groups
from pfl_audit.documents.provider_names import with_one_name
from pfl_audit.documents.readers import Part, open_corpus
from pfl_audit.documents.sides import join_sides, regroup
from pfl_audit.documents.units import PROVIDER, UNITS
from pfl_audit.errors import NotAuditableError, UsageError


def audited_corpus(inputs: QuestionInputs) -> Corpus:
    """Queries of members and non-members, grouped by the unit of privacy, with the groups of ``groups``.

    Raises:
        UsageError: Inputs are missing, or contradict each other.
        NotAuditableError: A corpus holds no question.
        AuditError: A corpus or the table of groups cannot be read, or the two sides overlap.
    """
    corpus = _given_corpus(inputs)
    if inputs.groups is not None:
        corpus = with_groups(corpus, inputs.groups)
    classes = {corpus.label(unit) for unit in corpus.stated_groups or corpus.client_groups} - {Membership.UNKNOWN}
    if inputs.classes_random == "groups" and len(classes) < 2:
        lack = f"{classes.pop().replace('_', '-')}s alone have groups" if classes else "the corpus has no group"
        raise UsageError(
            f"--classes-random groups declares that whole groups were drawn, and {lack}",
            "Give --groups, or --classes-random units where each was drawn by itself",
        )
    return corpus


def _given_corpus(inputs: QuestionInputs) -> Corpus:
    unit = UNITS[inputs.unit]
    if inputs.members is None and inputs.non_members is None:
        if inputs.red is None:
            raise UsageError("documents to ask about are needed", "Give --red, or --members and --non-members")
        if unit is not PROVIDER:
            raise UsageError(
                f"--unit {unit.name} needs the two classes apart, because --red labels providers",
                "Give --members and --non-members",
            )
        return _asked(inputs.red, "red")
    if inputs.red is not None:
        raise UsageError("--red cannot be given with --members and --non-members", "Give one or the other")
    if inputs.members is None or inputs.non_members is None:
        lack = "--members" if inputs.members is None else "--non-members"
        raise UsageError("members and non-members are both needed", f"Give {lack} as well")
    return join_sides(_asked(inputs.members, "all"), _asked(inputs.non_members, "all"), unit)


def training_corpus(inputs: QuestionInputs, audited: Corpus) -> Corpus | None:
    """The training corpus, grouped by the same unit, or None.

    Raises:
        NotAuditableError: The unit is the provider, and pages that are asked about were trained on.
        AuditError: It cannot be read.
    """
    if inputs.blue is None:
        return None
    blue = read_corpus(inputs.blue, "blue")
    unit = UNITS[inputs.unit]
    if unit is not PROVIDER:
        return regroup(blue, unit)
    _refuse_overlap(audited, blue)
    return blue


def read_corpus(given: Path | InMemory, part: Part) -> Corpus:
    """A corpus of a path, or in memory.

    Raises:
        UsageError: What is in memory is no corpus.
        AuditError: It cannot be read.
    """
    if isinstance(given, Path):
        return open_corpus(given, part)
    if not isinstance(given, Corpus):
        raise UsageError(f"a {type(given).__name__} is no corpus", "Give a path or a Corpus")
    return with_one_name(given)


def place_of(inputs: QuestionInputs) -> str:
    """Where the audited documents are, for the report."""
    given = [one for one in (inputs.red, inputs.members, inputs.non_members) if one is not None]
    names = [str(one) if len(given) == 1 else one.name for one in given if isinstance(one, Path)]
    return " and ".join(names) or "in memory"


def _asked(given: Path | InMemory, part: Part) -> Corpus:
    corpus = read_corpus(given, part)
    require_questions(corpus, given if isinstance(given, Path) else Path("the corpus"))
    return corpus


def _refuse_overlap(red: Corpus, blue: Corpus) -> None:
    """What is asked about must be new to the model: a page that was trained on proves nothing about its provider."""
    trained = {page.id for page in blue.documents if "train" in page.split}
    both = sum(page.id in trained for page in red.documents)
    if both:
        raise NotAuditableError(
            f"{both} of the pages that are to be asked about were trained on",
            "Leave the BLUE training pages out of RED",
        )
