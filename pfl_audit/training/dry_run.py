"""Dry run of a training: what it would do, send, promise and take."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from pfl_audit.models.pretraining import one_a_page
from pfl_audit.progress import Progress
from pfl_audit.training.federated.dry_run import dry_run, estimate
from pfl_audit.training.federated.run import Federation
from pfl_audit.training.federated.settings import PrivacySettings
from pfl_audit.training.run import prepare
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.start import Settings, TrainRun, begin, choose, on_pages


def plan_run(
    run: TrainRun, settings: Settings, progress: Progress, privacy: PrivacySettings | None = None
) -> dict[str, Any]:
    """What ``run_training`` would do; nothing is trained and nothing written.

    Raises:
        UsageError: As run_training.
    """
    prepared = prepare(run, settings, privacy)
    with tempfile.TemporaryDirectory() as scratch:
        elsewhere = replace(run, out=Path(scratch))
        model = begin(elsewhere, prepared.corpus, settings)
        pages = on_pages(run.pretraining, model)
        _, trainable = choose(model, run.lora, settings, pages)
        if not isinstance(settings, TrainSettings):
            federation = Federation(
                run.mode,
                settings,
                privacy,
                elsewhere.out,
                prepared.identity,
                run.device,
                pretraining=run.pretraining,
            )
            return dry_run(federation, model, trainable, prepared.train, progress, pages)
        trained = {"tensors": len(trainable.names), "numbers": trainable.size}
        plan: dict[str, Any] = {"mode": run.mode, "clients": [], "trained": trained, "privacy": None}
        plan["estimate"] = estimate(model, trainable, prepared.train, settings, settings.steps, progress)
        if run.pretraining and pages:
            first, queries = run.pretraining.central(settings), one_a_page(prepared.train)
            plan["pretraining"] = {"estimate": estimate(pages, trainable, queries, first, first.steps, progress)}
        return plan
