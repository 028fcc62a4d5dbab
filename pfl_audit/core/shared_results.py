"""Writes both forms of a run's results: exact ones into its private folder, and ``results.json``, which is shared."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from pfl_audit.core.disclosure_control import SMALLEST, Totals, share
from pfl_audit.core.evidence import PRIVATE, PUBLIC
from pfl_audit.core.places import Places, short
from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.results import Results, write_results
from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.errors import AuditError
from pfl_audit.files import sha256_json, write_json

PUBLISHED: Final = sha256_json(["published totals"])
"""Key of the record of a store, of the form that all its keys have."""


def keep_results(results: Results, plan: AuditPlan, key: bytes, store: Path) -> Results:
    """Write the results of a run, and return those that are shared.

    Args:
        results: Exact results, with full paths.
        plan: Plan of the run.
        key: Key of the run.
        store: Response store, which keeps what was published.

    Raises:
        AuditError: A file cannot be written, or what the store keeps is damaged.
    """
    exact = _without_paths(results, plan)
    if plan.reveal:
        write_results(exact, plan.out)
        return exact
    with ResponseStore(store) as opened, opened.transaction() as database:
        database.execute("BEGIN IMMEDIATE")  # audits that share a store publish one after the other
        before = published_totals(opened)
        shared, totals = share(exact, plan.smallest_group or SMALLEST, key, before)
        write_results(exact, plan.out / PRIVATE)
        write_results(shared, plan.out)
        Records(opened).put(PUBLISHED, totals.model_dump(mode="json"))
    shown = {str(plan.out / one.picture) for check in shared.checks for one in check.evidence if one.picture}
    for picture in (plan.out / PUBLIC).glob("*"):
        if str(picture) not in shown:
            picture.unlink()
    return shared


def published_totals(store: ResponseStore) -> Totals:
    """Totals that reports of a store have published.

    Raises:
        AuditError: The record is damaged.
    """
    try:
        return Totals.model_validate(Records(store).get(PUBLISHED) or {})
    except ValidationError as error:
        raise AuditError(f"the totals that {store.path} has published are damaged", "Name another --store") from error


def _without_paths(results: Results, plan: AuditPlan) -> Results:
    """The results with paths shortened; the full ones go to the private folder."""
    said = results.model_dump(mode="json")
    beside = [said[name] for name in ("target", "pretrained", "public", "control") if said[name]]
    parts = [*beside, *said["datasets"], *said["references"]]
    full = {"command": plan.command, "folder": str(Path.cwd()), "paths": [part["path"] for part in parts]}
    write_json(plan.out / PRIVATE / "provenance.json", full)
    for part in parts:
        part["path"] = short(part["path"])
    known = (plan.identity(), plan.out, plan.store, full["paths"])
    shortened = Results.model_validate(Places(known).without(said))
    for check, given in zip(shortened.checks, results.checks, strict=True):
        behind = zip(check.metrics, given.metrics, strict=True)
        check.metrics[:] = [one.with_behind(other.resamples, other.items) for one, other in behind]
    return shortened
