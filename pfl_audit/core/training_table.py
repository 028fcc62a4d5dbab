"""Numbers of finished trainings and those of papers: validation scores, bytes sent, epsilon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

from pydantic import JsonValue

from pfl_audit.core.audit_verdict import decide
from pfl_audit.core.metric import build_metric
from pfl_audit.core.places import short
from pfl_audit.core.redaction import visible
from pfl_audit.core.results import Check, Format, Metric, Provenance, PublishedNumber, Results, Target
from pfl_audit.core.training_record import FILE_NAME, read_training
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.inputs import require_input
from pfl_audit.version import __version__

FAMILY: Final = "training"
_REMEDY: Final = "Give folders of checkpoints that pfl-audit train has written"
_PLACES: Final = ("step", "round", "epoch")
_NAMES: Final = {"anls": "ANLS"}
_MOST: Final = 200
"""Largest number of validations with scores of their own; the last ones."""


def training_results(folders: Sequence[Path], published: Sequence[PublishedNumber]) -> Results:
    """The trainings as checks, which exports can write; ``training.NAME`` has the name of the folder.

    The scores of the last validation have no slice; those of each validation have its step, round or epoch. A stage of
    a round, where stages were validated, has the mean over the round's clients. A private run has its scores in its
    private record, and files with them are readable by their owner only.

    Raises:
        UsageError: A folder does not exist, or two have one name.
        AuditError: A folder has no record of a training.
    """
    checks, private = list[Check](), False
    for folder in folders:
        record, held = _records(folder)
        private = private or held is not None
        name = f"{FAMILY}.{visible(folder.resolve().name, 80)}"
        if any(check.id == name for check in checks):
            raise UsageError(f"two trainings have the name {name}", "Give folders of different names")
        mode = record.get("mode") or record.get("task") or "of another kind"
        title = f"Training, {visible(str(mode), 40)}"
        numbers = [*_scores(held or record), *_others(record)]
        checks.append(Check(id=name, family=FAMILY, title=title, status="ran", metrics=numbers))
    facts = {"command": "pfl-audit trainings", "version": __version__, "packages": {}, "seed": 0, "started": "-"}
    return Results(
        title="Trainings",
        verdict=decide(checks, "never"),
        target=Target(family=FAMILY, path=short(folders[0]), sha256="-", parameters=None),
        datasets=[],
        checks=checks,
        published=list(published),
        provenance=Provenance.model_validate({**facts, "seconds": 0.0, "resumed": False, "revealed": private}),
    )


def _records(folder: Path) -> tuple[Mapping[str, JsonValue], Mapping[str, JsonValue] | None]:
    """The record of a training, and the private record of the same run if there is one."""
    require_input(folder, _REMEDY)
    record, _ = read_training(folder / FILE_NAME)
    if record is None:
        raise AuditError(f"{folder} has no {FILE_NAME} that can be read", _REMEDY)
    place = folder.resolve()
    held, _ = read_training(place.with_name(f"{place.name}.private.json"))
    mine = _part(record, "data").get("commitment")
    return record, held if held and mine is not None and _part(held, "data").get("commitment") == mine else None


def _scores(record: Mapping[str, JsonValue]) -> Iterator[Metric]:
    """Validation scores: the last ones, or those of each criterion of a training on forms, then each entry."""
    history = [one for one in _list(record.get("history")) if isinstance(one, dict)]
    chosen = _part(record, "chosen")
    if chosen:
        for criterion in chosen:
            yield from _entry(_part(chosen, criterion), {"criterion": visible(criterion, 40)})
    elif history:
        yield from _entry(history[-1], {})
    for entry in history[-_MOST:]:
        place = next((name for name in _PLACES if isinstance(entry.get(name), int)), None)
        if place is not None:
            yield from _entry(entry, {place: int(str(entry[place]))})
    yield from _stages([one for one in _list(record.get("stages")) if isinstance(one, dict)][-_MOST:])


def _stages(entries: Sequence[Mapping[str, JsonValue]]) -> Iterator[Metric]:
    """Mean ANLS over the clients of a round, by stage (pfl-docvqa-competition, Table A5)."""
    found: dict[tuple[int, str], list[float]] = {}
    for one in entries:
        number, stage, anls = one.get("round"), one.get("stage"), one.get("anls")
        if isinstance(number, int) and isinstance(stage, str) and isinstance(anls, int | float):
            found.setdefault((number, visible(stage, 40)), []).append(float(anls))
    for (number, stage), scores in found.items():
        yield from _entry({"anls": fmean(scores)}, {"round": number, "stage": stage})


def _entry(entry: Mapping[str, JsonValue], about: Mapping[str, str | int]) -> Iterator[Metric]:
    for name, value in entry.items():
        if name not in _PLACES and isinstance(value, int | float) and not isinstance(value, bool):
            share = "loss" not in name and 0 <= value <= 1
            yield _metric(
                f"validation {_NAMES.get(name, visible(name, 60))}", value, "percent" if share else "number", about
            )


def _others(record: Mapping[str, JsonValue]) -> Iterator[Metric]:
    sent, claim = _part(record, "communication"), _part(record, "privacy")
    for name, value in (
        ("GB sent", sent.get("GB")),
        ("GiB sent, as the papers count", _part(sent, "papers_way").get("GiB")),
        ("epsilon", claim.get("epsilon")),
    ):
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield _metric(name, value, "number", {})


def _metric(name: str, value: float, how: Format, about: Mapping[str, str | int]) -> Metric:
    return build_metric(name, float(value), format=how, unit="trainings", about=about)


def _part(record: Mapping[str, JsonValue], name: str) -> Mapping[str, JsonValue]:
    part = record.get(name)
    return part if isinstance(part, dict) else {}


def _list(value: JsonValue) -> Sequence[JsonValue]:
    return value if isinstance(value, list) else []
