"""Estimate of an audit of forms: the fields are counted, and a few of them are attacked."""

from __future__ import annotations

import time

from pfl_audit.attacks.reconstruction.attack import ATTACK
from pfl_audit.attacks.reconstruction.guessing import rank_truths
from pfl_audit.attacks.reconstruction.inputs import FormInputs
from pfl_audit.attacks.reconstruction.opened import open_subject
from pfl_audit.attacks.reconstruction.plan import attacked_labels, fields_of
from pfl_audit.attacks.reconstruction.proposals import proposers
from pfl_audit.attacks.reconstruction.search import reconstruct
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.core.settings import read_settings
from pfl_audit.core.subject import AuditJob, Estimate
from pfl_audit.models.memory import peak_memory
from pfl_audit.progress import Silent

_SAMPLE = 33
_UNIT = "fields"
_TUNED = "the training of the shadow models of --tune, about as long as that of --public and --model, as well"
_BESIDE = "Statistics and the report come on top; a search that takes long for a few fields may not be in the sample"


def estimate_forms(inputs: FormInputs, job: AuditJob) -> Estimate:
    """Count private and new fields, and attack some of them as the audit will.

    Raises:
        AuditError: The models or the forms cannot be opened, or no form has a label that is asked for.
    """
    opened = open_subject(inputs, job)
    settings = read_settings(ReconstructionSettings, job.settings.get(ATTACK.name, {}), ATTACK.name)
    labels = attacked_labels(settings.labels, opened.corpus.labels)
    parts = (opened.parts.private, opened.parts.validation if settings.control else ())
    private, new = (fields_of(part, opened.target, settings, labels, job.seed).fields for part in parts)
    fields = [*private, *new]
    if opened.public is None:
        return Estimate(len(fields), 1, None, 0, None, "Without a public model no field is attacked", _UNIT)
    sample = fields[:: max(1, len(fields) // _SAMPLE)][:_SAMPLE]
    by = proposers(opened.public, opened.target, settings)
    reconstruct([blank for blank, _ in sample[:1]], *by, settings, job.seed, progress=Silent())  # warms up
    began = time.monotonic()
    reconstruct([blank for blank, _ in sample[1:]], *by, settings, job.seed, progress=Silent())
    middle = time.monotonic()
    for one in by:
        rank_truths(sample[1:], one, settings.guesses, settings.expansions, progress=Silent())
    attempts, guesses = middle - began, time.monotonic() - middle
    timed = max(0, len(sample) - 1)
    every = (attempts + guesses) * len(fields) + attempts * len(opened.epochs) * len(private)
    seconds = every / timed if timed else None
    beside = f"{_BESIDE}; {_TUNED}" if settings.tune else _BESIDE
    return Estimate(len(fields), 1, seconds, timed, peak_memory(), beside, _UNIT)
