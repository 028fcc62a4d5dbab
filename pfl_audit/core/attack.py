"""Protocol of an attack: checks with their needs, and one function that runs them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, TypedDict, TypeVar, Unpack, runtime_checkable

from pfl_audit.core.review import Review
from pfl_audit.core.settings import Settings
from pfl_audit.errors import UsageError
from pfl_audit.registry import Registry

if TYPE_CHECKING:  # they build large models of pydantic, which 'pfl-audit list' can do without
    from pfl_audit.core.context import AuditContext
    from pfl_audit.core.results import Check, Curve, Evidence, Finding, Metric, Table
    from pfl_audit.documents.corpus import Corpus


class CheckParts(TypedDict, total=False):
    """What a check that ran reports; see `results.Check`."""

    settings: Mapping[str, object]
    metrics: Sequence[Metric]
    tables: Sequence[Table]
    curves: Sequence[Curve]
    evidence: Sequence[Evidence]
    finding: Finding | None


@dataclass(frozen=True)
class CheckSpec:
    """A check that an attack offers.

    Attributes:
        id: Family, dot, name; stable.
        title: Title for people.
        needs: What the check cannot run without: capabilities of the model, and inputs of the subject.
        threat_model: ``knows``, ``sees`` and ``does``, a sentence each.
        part_of: Id of the check whose finding includes this one; it has no finding of its own then.
        optional: Whether a gate on all checks of the attack holds without it where its needs are not met.
        on_request: Reason why it runs only when it is named, or None if it runs always.
        review: Class of attack, access and data that it obtains, for the coverage table of a report; None leaves it out
            of the classes.
    """

    id: str
    title: str
    needs: frozenset[str] = frozenset()
    threat_model: Mapping[str, str] = field(default_factory=dict)
    part_of: str | None = None
    optional: bool = False
    on_request: str | None = None
    review: Review | None = None

    @property
    def family(self) -> str:
        """Name of the attack that it belongs to."""
        return self.id.split(".", 1)[0]

    def ran(self, **parts: Unpack[CheckParts]) -> Check:
        """The result of a check that ran."""
        return self._check(status="ran", **parts)

    def not_run(self, status: Literal["skipped", "failed"], reason: str) -> Check:
        """The row of a check that did not run.

        Args:
            status: ``skipped`` where it could not be run, ``failed`` where it ended with an error.
            reason: Why, in one line.
        """
        return self._check(status=status, reason=reason)

    def _check(self, **parts: object) -> Check:
        from pfl_audit.core.results import Check

        own = {name: getattr(self, name) for name in ("id", "family", "title", "part_of")}
        review = asdict(self.review) if self.review else None
        return Check.model_validate({**own, "threat_model": dict(self.threat_model), "review": review, **parts})


ContextT = TypeVar("ContextT", bound="AuditContext", contravariant=True)
SettingsT = TypeVar("SettingsT", bound=Settings)
SettingsIn = TypeVar("SettingsIn", bound=Settings, contravariant=True)


class Attack(Protocol[ContextT, SettingsT]):
    """A family of checks, found by the entry point ``pfl_audit.attacks``.

    Attributes:
        name: Name of the entry point; the ids of its checks begin with it.
        subject: Name of the subject that it works on; ``run`` gets the context of this subject.
        specs: Checks that it offers.
        Settings: Class of its settings.
    """

    name: str
    subject: str
    specs: Sequence[CheckSpec]
    Settings: type[SettingsT]

    def run(self, context: ContextT, settings: SettingsT) -> Sequence[Check]:
        """Run the checks of ``context.checks`` that are this family's.

        Raises:
            UsageError: The settings do not fit the documents; the audit ends.
            NotAuditableError: No check can be run; they are reported as skipped.
            Exception: Reported as a failed check with the type of the exception.
        """
        ...


@runtime_checkable
class PlannedAttack(Protocol[SettingsIn]):
    """An attack that says beforehand how much it asks, for the estimate of what an endpoint costs."""

    def questions(self, checks: Collection[str], red: Corpus, settings: SettingsIn) -> Mapping[str, int]:
        """Number of questions that the checks ask the model under audit, at most.

        Args:
            checks: Ids of the checks that run; some may be other attacks'.
            red: Corpus that they ask about.
            settings: Settings of the attack.

        Returns:
            Kind of question to number. Attacks that ask the same questions give them the same name.
        """
        ...


InstalledAttack = Attack["AuditContext", Settings]
"""An attack as the runner handles it: ``subject`` states which context it takes, and ``Settings`` which settings."""

ATTACKS: Registry[InstalledAttack] = Registry(
    "pfl_audit.attacks", "attack", ("name", "subject", "specs", "Settings", "run")
)


def planned_questions(
    attacks: Iterable[InstalledAttack],
    checks: Collection[str],
    red: Corpus,
    settings: Mapping[str, Settings] = MappingProxyType({}),
) -> int:
    """Number of questions that checks ask, at most; attacks that do not say how many count as none.

    Args:
        settings: Attack to its settings; the defaults where it is not there.
    """
    kinds: dict[str, int] = {}
    for attack in attacks:
        if isinstance(attack, PlannedAttack):
            own = settings.get(attack.name) or attack.Settings()
            for kind, number in attack.questions(checks, red, own).items():
                kinds[kind] = max(number, kinds.get(kind, 0))
    return sum(kinds.values())


def unmet_needs(spec: CheckSpec, have: frozenset[str]) -> str | None:
    """One line that lists both sides where a check's needs are not met, else None."""
    missing = sorted(str(need) for need in spec.needs - have)
    if not missing:
        return None
    return f"needs {', '.join(missing)}; the audit has {', '.join(sorted(str(need) for need in have)) or 'nothing'}"


def choose_checks(attacks: Mapping[str, InstalledAttack], wanted: Sequence[str]) -> dict[str, CheckSpec]:
    """Check ids to specifications: those named, or all.

    Args:
        attacks: Installed attacks by name.
        wanted: Ids of checks or names of attacks; none for all.

    Raises:
        UsageError: A name is neither a check nor an attack.
    """
    every = {spec.id: spec for attack in attacks.values() for spec in attack.specs}
    if not wanted:
        return every
    chosen: dict[str, CheckSpec] = {}
    for name in wanted:
        matches = {key: spec for key, spec in every.items() if key == name or key.split(".")[0] == name}
        if not matches:
            raise UsageError(f"there is no check '{name}'", f"Choose among: {', '.join(every)}")
        chosen |= matches
        chosen |= {spec.part_of: every[spec.part_of] for spec in matches.values() if spec.part_of}
    return chosen
