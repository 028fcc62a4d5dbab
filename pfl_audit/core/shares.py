"""A run that asks a share of an audit's questions, and writes nothing but the store of the answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pfl_audit.core.failures import failure
from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.runner import AuditRun
from pfl_audit.core.sharding import ElsewhereError
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.subject import SharedSubject, asked_of
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.progress import Progress


@dataclass(frozen=True)
class Filled:
    """What came of a share.

    Attributes:
        asked: Questions to models.
        reused: Questions whose answers were in the store.
        waiting: Attacks that need answers of other shares before they ask more.
    """

    asked: int
    reused: int
    waiting: tuple[str, ...]


def run_share(plan: AuditPlan, progress: Progress) -> Filled:
    """Ask the share of a plan, so far as it does not wait for answers of other shares.

    Killed at any time, the same plan goes on from the store.

    Raises:
        UsageError: No store is named, or no subject of the plan can be shared out.
        AuditError: As ``run_audit``.
    """
    if plan.store is None:
        raise UsageError("a share is kept in a store of its own", "Name it, such as --store shard-1.sqlite")
    with TemporaryDirectory() as out, ResponseStore(plan.store) as store:
        audit = AuditRun(replace(plan, out=Path(out)), progress)
        _keep_shared(audit)
        audit.open(store)
        store.mark(map(asked_of, audit.opened.values()))
        waiting = _ask(audit, Redactor(""))
        work = Counter[str]()
        for one in audit.opened.values():
            work.update(one.work())
    return Filled(work["queries_asked"], work["queries_reused"], waiting)


def _keep_shared(audit: AuditRun) -> None:
    """Leave out the subjects whose questions cannot be shared out.

    Raises:
        UsageError: None is left that has its inputs.
    """
    shared = [name for name, (subject, _) in audit.subjects.items() if isinstance(subject, SharedSubject)]
    if not set(audit.wanted()) & set(shared):
        raise UsageError("of this audit no questions can be shared out", "Leave --shard out")
    audit.subjects = {name: audit.subjects[name] for name in shared}
    audit.missing = {name: audit.missing[name] for name in shared}
    audit.specs = {key: spec for key, spec in audit.specs.items() if audit.subject_of(spec) in shared}


def _ask(audit: AuditRun, redactor: Redactor) -> tuple[str, ...]:
    """Ask what the attacks ask without answers of other shares; returns the attacks that wait for these."""
    done = audit.not_run()
    common = audit.common(frozenset(key for key in audit.specs if key not in done), redactor)
    waiting = []
    for name, attack in audit.attacks.items():
        wanted = [spec.id for spec in audit.wanted_of(name, common.checks)]
        # All at once where no answer is missing; else check by check, since one that waits ends the attack.
        for checks in [wanted, *([key] for key in wanted)] if wanted else []:
            context = audit.opened[attack.subject].context(replace(common, checks=frozenset(checks)))
            try:
                attack.run(context, audit.settings[name])
            except ElsewhereError:
                waiting.append(name)
                continue
            except Exception as error:
                status, reason = failure(error, name, context)
                if status == "failed" and isinstance(error, AuditError):  # of other exceptions failure tells
                    audit.progress.say(f"{name}: {reason}")
            if checks is wanted:
                break
    return tuple(dict.fromkeys(waiting))
