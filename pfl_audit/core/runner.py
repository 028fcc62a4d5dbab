"""Run an audit: open, ask, attack, decide, write."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from pfl_audit import __version__
from pfl_audit.core.attack import (
    Attack,
    AuditContext,
    CheckSpec,
    Need,
    Resource,
    Subject,
    choose_checks,
    installed_attacks,
    unmet_needs,
)
from pfl_audit.core.engine import QueryEngine
from pfl_audit.core.evidence import PRIVATE, EvidenceBox
from pfl_audit.core.forms import FormPlan, open_subject
from pfl_audit.core.gradients import GradientPlan, open_gradients
from pfl_audit.core.places import Places, short, short_command
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check, Provenance, Results, Target, write_results
from pfl_audit.core.run_folder import RunFolder
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.subjects import Opened, OpenedQuestions
from pfl_audit.core.training_record import FILE_NAME as TRAINING_RECORD
from pfl_audit.core.training_record import public_record
from pfl_audit.core.verdict import Budget, FailOn, decide
from pfl_audit.documents.corpus import Corpus, require_questions
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError, NotAuditableError, StorageError, UnanswerableError, UsageError
from pfl_audit.files import write_json
from pfl_audit.models.open import open_model
from pfl_audit.models.page_reader import PageReader
from pfl_audit.models.protocol import Capability, DocumentModel
from pfl_audit.models.recorded import RecordedModel
from pfl_audit.progress import Progress
from pfl_audit.provenance import package_versions

__all__ = ["AuditPlan", "FormPlan", "GradientPlan", "run_audit"]


@dataclass(frozen=True)
class AuditPlan:
    """What shall be audited, and how.

    Attributes:
        title: Of the report.
        out: Folder of the run.
        red: Corpus of member and non-member providers, or None.
        model: Checkpoint under audit, or None with ``answers``.
        answers: Recorded answers of a model that cannot be asked.
        pretrained: Checkpoint that it was trained from, or None.
        blue: Training corpus, or None.
        control: Checkpoint that saw no provider of RED and is as competent as the target, or None.
        references: Checkpoints like the target that saw no provider of RED; none, or two at least.
        classes_random: Members and non-members were drawn at random.
        forms: Forms for a model that reads their tokens, or None.
        gradients: Templates and pages for a model of which gradients are shared, or None. One of the three it is.
        checks: Ids or families; empty for all.
        settings: Family to its settings.
        store: Response store; in ``out`` where it is None.
        seed: Of everything drawn.
        device: torch's name of the device.
        download: Whether hub ids may be fetched.
        fail_on: The gate.
        reveal: Show names, values and pages.
        ocr: Let OCR read the pictures of scrubbed pages.
        command: As it was typed.
    """

    title: str
    out: Path
    red: Path | None = None
    model: str | None = None
    answers: Path | None = None
    pretrained: str | None = None
    blue: Path | None = None
    control: str | None = None
    references: tuple[str, ...] = ()
    classes_random: bool = False
    forms: FormPlan | None = None
    gradients: GradientPlan | None = None
    checks: tuple[str, ...] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    store: Path | None = None
    seed: int = 0
    device: str = "cpu"
    download: bool = False
    fail_on: FailOn = "leak"
    reveal: bool = False
    ocr: bool = False
    command: str = ""

    def identity(self) -> dict[str, Any]:
        """What decides the results."""
        return {
            "version": __version__,
            "model": self.model,
            "answers": str(self.answers) if self.answers else None,
            "pretrained": self.pretrained,
            "red": str(self.red) if self.red else None,
            "blue": str(self.blue) if self.blue else None,
            "control": self.control,
            "references": list(self.references),
            "classes_random": self.classes_random,
            "forms": self.forms.identity() if self.forms else None,
            "gradients": self.gradients.identity() if self.gradients else None,
            "checks": list(self.checks),
            "settings": {name: dict(values) for name, values in self.settings.items()},
            "seed": self.seed,
            "reveal": self.reveal,
            "ocr": self.ocr,
        }

    @property
    def subject(self) -> Subject:
        """What the model is audited by."""
        if self.gradients is not None:
            return "gradients"
        return "forms" if self.forms is not None else "questions"

    @property
    def documents(self) -> Path:
        """Where the documents are.

        Raises:
            UsageError: Nowhere, or in more than one place.
        """
        forms = self.forms.path if self.forms else None
        template = self.gradients.template if self.gradients else None
        places = [place for place in (self.red, forms, template) if place is not None]
        if len(places) != 1:
            raise UsageError("one of --red, --forms and --template is needed, and no two", "Give the documents")
        return places[0]


def run_audit(plan: AuditPlan, progress: Progress) -> Results:
    """Audit, write ``results.json``, and return it.

    Killed at any time, the same plan goes on from the response store.

    Raises:
        AuditError: The target or the corpus cannot be used at all.
    """
    if (plan.model is None) == (plan.answers is None):
        raise UsageError("one of --model and --answers is needed, and not both", "Give the checkpoint folder")
    documents = plan.documents
    attacks = installed_attacks()
    settings = {name: _settings(attack, plan.settings.get(name, {})) for name, attack in attacks.items()}
    specs = choose_checks(attacks, plan.checks, plan.subject)
    started, clock = datetime.now(UTC), time.monotonic()
    with RunFolder(plan.out, plan.identity()) as folder:
        with ResponseStore(plan.store or plan.out / "responses.sqlite") as store:
            try:
                opened = _open(plan, store, progress)
                hide = Redactor(store.salt, reveal=plan.reveal)
                checks = _run_checks(plan, opened, attacks, settings, specs, hide, progress)
            finally:
                folder.asked = store.changed
        seconds = round(time.monotonic() - clock, 1)
        models = opened.models()
        results = Results(
            title=plan.title,
            verdict=decide(checks, plan.fail_on, specs if plan.checks else ()),
            target=_target(models.target, plan.model),
            pretrained=_beside(models.before, plan.forms.public if plan.forms else plan.pretrained),
            control=_beside(models.control, plan.control),
            references=[_target(facts, name) for facts, name in zip(models.references, plan.references, strict=False)],
            data=opened.data(documents, hide),
            checks=checks,
            provenance=Provenance(
                command=short_command(plan.command),
                version=__version__,
                packages=package_versions(),
                seed=plan.seed,
                started=started.isoformat(timespec="seconds"),
                seconds=seconds,
                resumed=folder.resumed,
                revealed=plan.reveal,
            ),
        )
        results = _without_paths(results, plan)
        write_results(results, plan.out)
        work = opened.work()
        folder.mark("success", seconds=seconds, **work)
        progress.say(", ".join(f"{count} {what.replace('_', ' ')}" for what, count in work.items()))
    return results


def _open(plan: AuditPlan, store: ResponseStore, progress: Progress) -> Opened:
    if plan.gradients is not None:
        states = plan.store.parent / "states" if plan.store else plan.out / "private" / "states"
        return open_gradients(plan.gradients, _live(plan), plan.device, store, states, plan.seed, progress)
    if plan.forms is not None:
        return open_subject(plan.forms, Path(_live(plan)), plan.device, store, progress)
    return _open_questions(plan, store, progress)


def _live(plan: AuditPlan) -> str:
    """The model, where no recorded answers will do."""
    if plan.model is None:
        raise UsageError(f"recorded answers say nothing about {plan.subject}", "Give --model")
    return plan.model


def _open_questions(plan: AuditPlan, store: ResponseStore, progress: Progress) -> OpenedQuestions:
    if plan.red is None:
        raise UsageError("--red is needed", "Give the folder of the documents")
    red = open_corpus(plan.red, "red")
    require_questions(red, plan.red)
    blue = open_corpus(plan.blue, "blue") if plan.blue else None
    if blue is not None:
        _refuse_overlap(red, blue)
    model = (
        _recorded(plan.answers, red)
        if plan.answers
        else open_model(plan.model or "", device=plan.device, download=plan.download)
    )
    before = open_model(plan.pretrained, device=plan.device, download=plan.download) if plan.pretrained else None
    control = open_model(plan.control, device=plan.device, download=plan.download) if plan.control else None
    return OpenedQuestions(
        target=QueryEngine(model, store, progress),
        pretrained=QueryEngine(before, store, progress) if before else None,
        reader=QueryEngine(PageReader(), store, progress) if plan.ocr else None,
        red=red,
        blue=blue,
        control=QueryEngine(control, store, progress) if control else None,
        references=tuple(QueryEngine(one, store, progress) for one in _references(plan, model)),
        classes_random=plan.classes_random,
    )


def _references(plan: AuditPlan, target: DocumentModel) -> list[DocumentModel]:
    """Open the reference models: none, or several, of which none is the target or given twice."""
    if len(plan.references) == 1:
        raise UsageError("one reference model shows no spread", "Give --reference twice at least, or not at all")
    opened = [open_model(name, device=plan.device, download=plan.download) for name in plan.references]
    for name, one in zip(plan.references, opened, strict=True):
        if Capability.LOSS not in one.capabilities:
            raise UsageError(f"the reference model {name} gives no losses", "Give checkpoints like --model")
    if len({one.fingerprint for one in (target, *opened)}) <= len(opened):
        raise UsageError(
            "two of the reference models and the model under audit are the same",
            "Train each --reference apart, with a --seed of its own",
        )
    return opened


def _recorded(path: Path, red: Corpus) -> RecordedModel:
    model = RecordedModel(path)
    model.require_answers_to(red)
    return model


def _refuse_overlap(red: Corpus, blue: Corpus) -> None:
    """RED must be new to the model: a page that was trained on proves nothing about its provider."""
    trained = {page.id for page in blue.documents if "train" in page.split}
    both = sum(page.id in trained for page in red.documents)
    if both:
        raise NotAuditableError(
            f"{both} of the pages that are to be asked about were trained on",
            "Leave the BLUE training pages out of RED",
        )


def _run_checks(
    plan: AuditPlan,
    opened: Opened,
    attacks: Mapping[str, Attack],
    settings: Mapping[str, BaseModel],
    specs: Mapping[str, CheckSpec],
    hide: Redactor,
    progress: Progress,
) -> list[Check]:
    have = opened.have()
    specs = {key: spec for key, spec in specs.items() if key in plan.checks or not _optional(spec, have)}
    unmet = {key: reason for key, spec in specs.items() if (reason := unmet_needs(spec, have)) is not None}
    runnable = frozenset(key for key in specs if key not in unmet)
    common = AuditContext(
        checks=runnable,
        seed=plan.seed,
        budget=Budget.shared(sum(specs[key].part_of is None for key in runnable)),
        redactor=hide,
        evidence=EvidenceBox(plan.out, reveal=plan.reveal),
        progress=progress,
    )
    context = opened.context(common)
    done: dict[str, Check] = {}
    for name, attack in attacks.items():
        wanted = [spec for key, spec in specs.items() if key in runnable and spec in attack.specs]
        if wanted:
            done |= _run_attack(name, attack, context, settings[name], wanted)
    for key, reason in unmet.items():
        done[key] = specs[key].not_run("skipped", reason)
    return [done[key] for key in specs]


def _optional(spec: CheckSpec, have: frozenset[Need]) -> bool:
    """Whether a check is run only where it is asked for by name, or where reference models are given."""
    return Resource.REFERENCES in spec.needs - have


def _run_attack(
    name: str, attack: Attack, context: AuditContext, settings: BaseModel, wanted: list[CheckSpec]
) -> dict[str, Check]:
    try:
        checks = {check.id: check for check in attack.run(context, settings)}
    except (UsageError, StorageError):
        raise
    except NotAuditableError as error:
        return {spec.id: spec.not_run("skipped", str(error)) for spec in wanted}
    except UnanswerableError as error:  # which names a page's file, while its reason does not
        return {spec.id: spec.not_run("failed", f"a page cannot be used: {error.reason}") for spec in wanted}
    except AuditError as error:
        return {spec.id: spec.not_run("failed", str(error)) for spec in wanted}
    return {
        spec.id: checks.get(spec.id) or spec.not_run("failed", f"the attack {name} gave no result") for spec in wanted
    }


def _settings(attack: Attack, values: Mapping[str, Any]) -> BaseModel:
    try:
        return attack.Settings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"the setting '{name}' of {attack.name} is wrong: {first['msg']}", "Correct it") from error


def _target(facts: Mapping[str, Any], name: str | None) -> Target:
    claim, review = public_record(Path(name) / TRAINING_RECORD) if name else (None, None)
    return Target(**facts, training_claim=claim, claim_review=review)


def _beside(facts: Mapping[str, Any] | None, name: str | None) -> Target | None:
    return _target(facts, name) if facts else None


def _without_paths(results: Results, plan: AuditPlan) -> Results:
    """The results with paths shortened; the full ones go to the private folder."""
    said = results.model_dump(mode="json")
    parts = [said[name] for name in ("target", "pretrained", "control", "data") if said[name]] + said["references"]
    full = {"command": plan.command, "folder": str(Path.cwd()), "paths": [part["path"] for part in parts]}
    write_json(plan.out / PRIVATE / "provenance.json", full)
    for part in parts:
        part["path"] = short(part["path"])
    known = (plan.identity(), plan.out, plan.store, full["paths"])
    return Results.model_validate(Places(known).without(said))
