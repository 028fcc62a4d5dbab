"""Runs an audit from plan to ``results.json``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from pfl_audit.core.attack import ATTACKS, CheckSpec, InstalledAttack, choose_checks, planned_questions, unmet_needs
from pfl_audit.core.audit_verdict import audited, decide
from pfl_audit.core.context import AuditContext
from pfl_audit.core.contradiction import held_against
from pfl_audit.core.dossier import CONFIGURATION
from pfl_audit.core.evidence import PRIVATE, EvidenceBox
from pfl_audit.core.failures import failure
from pfl_audit.core.gate_policy import checks_of, read_policy
from pfl_audit.core.keyed import run_key
from pfl_audit.core.places import is_shipped, short, short_command
from pfl_audit.core.plan import AuditPlan, configuration_of
from pfl_audit.core.published import require_checks
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.resamples import keep_resamples
from pfl_audit.core.results import Check, Provenance, Results, Target
from pfl_audit.core.run_folder import RunFolder, RunLog
from pfl_audit.core.settings import Settings, checkpoints_of, label_of, private_options, read_settings, with_published
from pfl_audit.core.shared_results import keep_results
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.subject import (
    SUBJECTS,
    AuditJob,
    Estimate,
    EstimatedSubject,
    Execution,
    ModelFacts,
    Opened,
    asked_of,
)
from pfl_audit.core.training_record import FILE_NAME as TRAINING_RECORD
from pfl_audit.core.training_record import public_record
from pfl_audit.core.verdict import Budget, with_interval_told
from pfl_audit.errors import (
    NotAuditableError,
    UsageError,
)
from pfl_audit.files import write_json
from pfl_audit.inputs import require_folder
from pfl_audit.progress import Progress, Silent
from pfl_audit.version import __version__, package_versions


def run_audit(plan: AuditPlan, progress: Progress, ready: Callable[[], None] | None = None) -> Results:
    """Audit, write ``results.json``, and return it.

    Killed at any time, the same plan goes on from the response store.

    Args:
        plan: What to audit, and how.
        progress: Receives the progress of the run.
        ready: Called once the folder of the run is claimed and its store is open, before the models are.

    Raises:
        AuditError: The model or the documents cannot be used at all.
    """
    audit, log = AuditRun(plan, progress), RunLog(plan.out)
    with RunFolder(plan.out, plan.identity(audit.also)) as folder:
        with ResponseStore(plan.store or plan.out / "responses.sqlite") as store:
            if ready is not None:
                ready()
            started, clock = datetime.now(UTC), time.monotonic()
            try:
                with log.stage("open") as counts:
                    audit.open(store)
                    counts |= {"subjects": len(audit.opened), "checks": len(audit.specs)}
                key = run_key(plan.out)
                redactor = Redactor(key.hex(), reveal=plan.reveal)
                store.mark(map(asked_of, audit.opened.values()))
                checks = audit.checks(redactor, log)
            finally:
                folder.asked = store.changed
                if folder.asked:
                    log.write()
        seconds = round(time.monotonic() - clock, 1)
        # Exact limits beside results that are decided on exact numbers would be a search for these.
        hidden = audit.private if plan.reveal else audit.private | {"--gate"}
        provenance = Provenance(
            command=short_command(plan.command, hidden),
            config=None if plan.config is None else short(plan.config),
            version=__version__,
            packages=package_versions(),
            seed=plan.seed,
            started=started.isoformat(timespec="seconds"),
            seconds=seconds,
            resumed=folder.resumed,
            revealed=plan.reveal,
        )
        work = {name: count for one in audit.opened.values() for name, count in one.work().items()}
        with log.stage("results") as counts:
            exact = audit.results(checks, redactor, provenance)
            results = keep_results(exact, plan, key, plan.store or plan.out / "responses.sqlite")
            keep_resamples(checks, provenance, plan.out)
            write_json(plan.out / CONFIGURATION, configuration_of(plan, audit.private))
            counts |= {"checks": len(checks), "ran": sum(check.status == "ran" for check in checks)}
        log.write()
        folder.mark("success", seconds=seconds, **work)
        progress.say(", ".join(f"{count} {what.replace('_', ' ')}" for what, count in work.items()))
    return results


def validate_plan(plan: AuditPlan) -> dict[str, str | None]:
    """Check everything about a plan that can be checked without opening a model or a document.

    Returns:
        Ids of the checks, each with the reason why it is not going to run, or None.

    Raises:
        UsageError: A setting, a check, an input, a gate or a waiver is wrong or does not exist.
        AuditError: A checkpoint is no folder.
    """
    audit = AuditRun(plan, Silent())
    audit.wanted()
    if plan.model is not None and not plan.download:
        require_folder(Path(plan.model), "Give the checkpoint folder, or --download with a hub id")
    for name, (_, inputs) in audit.subjects.items():
        for key, value in inputs:
            if isinstance(value, Path) and not value.exists():
                raise UsageError(f"{value} does not exist", f"Correct '{key}' of {name}")
        for key, folder in checkpoints_of(inputs):
            if not plan.download:
                require_folder(Path(folder), f"Correct '{key}' of {name}, or add --download")
    return {key: audit.reasons.get(audit.subject_of(spec)) for key, spec in audit.specs.items()}


def estimate_plan(plan: AuditPlan, progress: Progress) -> dict[str, Estimate]:
    """Subject to what its audit is going to ask and need; subjects that do not say are left out.

    Raises:
        AuditError: As ``run_audit``.
    """
    audit = AuditRun(plan, progress)
    found = {}
    with TemporaryDirectory() as folder, ResponseStore(Path(folder) / "responses.sqlite") as store:
        job = audit.job(store)
        for name in audit.wanted():
            subject, inputs = audit.subjects[name]
            if isinstance(subject, EstimatedSubject):
                found[name] = subject.estimate(inputs, job)
    return found


class AuditRun:
    """What a plan asks for, validated before anything is opened.

    Attributes:
        attacks: Installed attacks by name.
        given: Attack to its settings that are given, by the user or as published.
        settings: Attack to its settings.
        policy: Requirements, gates by number, waivers and baseline.
        named: Checks and attacks that the user, a requirement or a gate names.
        also: Checks that run for a requirement or a gate, beside those that the user named.
        specs: Checks by id, in the order of the report.
        subjects: Subjects of these checks with their inputs, by name.
        private: Options of all installed subjects and attacks whose value a report does not print.
        missing: Subject to its input that is not given, or None.
        opened: Opened subjects by name.
        reasons: Why the others are not opened.
    """

    def __init__(self, plan: AuditPlan, progress: Progress) -> None:
        self.plan, self.progress = plan, progress
        if plan.smallest_group is not None and plan.smallest_group < 2:
            raise UsageError("--smallest-group is below 2, so that a number may be about one", "Give 2 or more")
        attacks, subjects = ATTACKS.installed(), SUBJECTS.installed()
        for kind, given, known in (("attack", plan.settings, attacks), ("subject", plan.inputs, subjects)):
            if unknown := [name for name in given if name not in known]:
                raise UsageError(f"there is no {kind} '{unknown[0]}'", f"Choose among: {', '.join(known)}")
        models = [*(one.Inputs for one in subjects.values()), *(one.Settings for one in attacks.values())]
        self.private = frozenset[str]().union(*map(private_options, models))
        self.attacks = {name: attack for name, attack in attacks.items() if attack.subject in subjects}
        self.given = {
            name: with_published(attack.Settings, stated) if plan.as_published else stated
            for name, attack in self.attacks.items()
            for stated in [plan.settings.get(name, {})]
        }
        self.settings = {
            name: read_settings(attack.Settings, self.given[name], name) for name, attack in self.attacks.items()
        }
        every = choose_checks(self.attacks, ())
        require_checks(plan.published, every)
        self.policy = read_policy(
            every,
            named=plan.checks if plan.named is None else plan.named,
            require=plan.require,
            gates=plan.gates,
            waivers=plan.waivers,
            baseline=plan.baseline,
        )
        self.named = frozenset((*plan.checks, *checks_of(self.policy)))
        chosen = choose_checks(self.attacks, plan.checks) if plan.checks else {}
        self.also = tuple(name for name in checks_of(self.policy) if plan.checks and name not in chosen)
        self.specs = choose_checks(self.attacks, (*plan.checks, *self.also))
        needed = set(map(self.subject_of, self.specs.values()))
        self.subjects = {
            name: (subject, read_settings(subject.Inputs, plan.inputs.get(name, {}), name))
            for name, subject in subjects.items()
            if name in needed
        }
        self.missing = {name: subject.missing(inputs) for name, (subject, inputs) in self.subjects.items()}
        self.reasons = {name: f"needs {lack}" for name, lack in self.missing.items() if lack}
        self.opened: dict[str, Opened] = {}

    def subject_of(self, spec: CheckSpec) -> str:
        """Name of the subject of a check."""
        return self.attacks[spec.family].subject

    def wanted(self) -> list[str]:
        """Subjects that have their inputs.

        Raises:
            UsageError: None has.
        """
        wanted = [name for name, lack in self.missing.items() if lack is None]
        if not wanted:
            lacks = " or ".join(lack for lack in self.missing.values() if lack)
            raise UsageError(f"nothing to audit the model with: it needs {lacks}", "Give the documents")
        return wanted

    def job(self, store: ResponseStore) -> AuditJob:
        """What subjects are opened with."""
        plan = self.plan
        states = plan.store.parent / "states" if plan.store else plan.out / PRIVATE / "states"
        asked = frozenset(key for key, spec in self.specs.items() if self.is_requested(spec))
        planned = partial(planned_questions, self.attacks.values(), asked, settings=self.settings)
        return AuditJob(
            store=store,
            states=states,
            progress=self.progress,
            planned=planned,
            settings=self.given,
            **{one.name: getattr(plan, one.name) for one in fields(Execution)},
        )

    def open(self, store: ResponseStore) -> None:
        """Open every subject that has its inputs.

        Raises:
            UsageError: None has.
            NotAuditableError: The only one that has cannot audit the model.
        """
        job, wanted = self.job(store), self.wanted()
        for name in wanted:
            subject, inputs = self.subjects[name]
            try:
                self.opened[name] = subject.open(inputs, job)
            except NotAuditableError as error:
                if len(wanted) == 1:
                    raise
                self.reasons[name] = str(error)
        if not self.opened:
            raise NotAuditableError(
                next(iter(self.reasons.values())), "Give documents of the kind that the model reads"
            )
        if (group := self.plan.smallest_group) is not None:
            facts = [one.data(Redactor("")) for one in self.opened.values()]
            sizes = [
                size for data in facts for size in (data.members, data.non_members) if isinstance(size, int) and size
            ]
            if group > min(sizes, default=group):
                raise UsageError(
                    f"--smallest-group {group} is above the smaller class of {min(sizes)}", "Give no more than that"
                )

    def checks(self, redactor: Redactor, log: RunLog) -> list[Check]:
        """Run what can be run, a stage of the log for each attack; every other check becomes a row with its reason."""
        plan, done = self.plan, self.not_run()
        common = self.common(frozenset(key for key in self.specs if key not in done), redactor)
        for name, attack in self.attacks.items():
            if wanted := self.wanted_of(name, common.checks):
                context = self.opened[attack.subject].context(common)
                with log.stage(name) as counts:
                    found = _run_attack(attack, context, self.settings[name], wanted)
                    counts |= Counter(check.status for check in found.values())
                done |= found
        labels = {
            name: label_of(settings, plan.settings.get(name, {})) if plan.as_published else None
            for name, settings in self.settings.items()
        }
        return [
            with_interval_told(done[key], common.budget).model_copy(
                update={
                    "subject": self.subject_of(spec),
                    "required": self.is_required(spec),
                    "as_published": labels[spec.family] if done[key].status == "ran" else None,
                }
            )
            for key, spec in self.specs.items()
        ]

    def is_required(self, spec: CheckSpec) -> bool:
        """Whether the user, a requirement or a gate named a check or its attack."""
        return not {spec.id, spec.family}.isdisjoint((*self.policy.named, *checks_of(self.policy)))

    def wanted_of(self, attack: str, checks: frozenset[str]) -> list[CheckSpec]:
        """Those of some checks that are an attack's."""
        return [spec for key, spec in self.specs.items() if key in checks and spec.family == attack]

    def not_run(self) -> dict[str, Check]:
        """The checks that cannot run, each with its reason."""
        done: dict[str, Check] = {}
        for key, spec in self.specs.items():
            subject = self.subject_of(spec)
            if subject not in self.opened:
                done[key] = spec.not_run("skipped", self.reasons[subject])
            elif (reason := unmet_needs(spec, self.opened[subject].have())) is not None:
                done[key] = spec.not_run("skipped", reason)
            elif not self.is_requested(spec):
                done[key] = spec.not_run("skipped", f"{spec.on_request}; --check {key} runs it")
        return done

    def is_requested(self, spec: CheckSpec) -> bool:
        """Whether a check runs without a request, or it or its attack is named."""
        return spec.on_request is None or bool(self.named & {spec.id, spec.family})

    def common(self, runnable: frozenset[str], redactor: Redactor) -> AuditContext:
        """What the attacks on all subjects get.

        Args:
            runnable: Ids of the checks that run.
        """
        plan = self.plan
        return AuditContext(
            checks=runnable,
            named=self.named,
            seed=plan.seed,
            budget=Budget.shared(sum(self.specs[key].part_of is None for key in runnable)),
            redactor=redactor,
            evidence=EvidenceBox(plan.out, reveal=plan.reveal),
            progress=self.progress,
        )

    def results(self, checks: list[Check], redactor: Redactor, provenance: Provenance) -> Results:
        """Everything that a report reads, exact."""
        models = [one.models() for one in self.opened.values()]
        datasets = [one.data(redactor) for one in self.opened.values()]
        before, public, control = (
            next((_target(*one) for one in beside if one is not None), None)
            for beside in zip(*((one.before, one.public, one.control) for one in models), strict=True)
        )
        target = _target(models[0].target, self.plan.model)
        review = held_against(target.claim_review, checks, datasets)
        results = Results(
            title=self.plan.title,
            verdict=decide(checks, "never"),
            release=self.plan.release,
            target=target.model_copy(update={"claim_review": review}),
            pretrained=before,
            public=public,
            control=control,
            references=[_target(facts, name) for one in models for facts, name in one.references],
            datasets=datasets,
            checks=checks,
            published=list(self.plan.published),
            provenance=provenance,
        )
        verdict = decide(
            checks,
            self.plan.fail_on,
            self.policy,
            guarantee=review,
            datasets=datasets,
            audited=audited(datasets, checks),
        )
        return results.model_copy(update={"verdict": verdict})


def _run_attack(
    attack: InstalledAttack, context: AuditContext, settings: Settings, wanted: Sequence[CheckSpec]
) -> dict[str, Check]:
    """Results of an attack by check id; an exception fails its checks and leaves the others alone."""
    try:
        checks = {check.id: check for check in attack.run(context, settings)}
    except Exception as error:  # whatever a stranger's attack raises
        status, reason = failure(error, attack.name, context)
        return {spec.id: spec.not_run(status, reason) for spec in wanted}
    lost = f"the attack {attack.name} gave no result"
    return {spec.id: checks.get(spec.id) or spec.not_run("failed", lost) for spec in wanted}


def _target(facts: ModelFacts, name: str | None) -> Target:
    claim, review = public_record(Path(name) / TRAINING_RECORD) if name else (None, None)
    shipped = name is not None and is_shipped(name)
    return Target.model_validate({**facts, "training_claim": claim, "claim_review": review, "demonstration": shipped})
