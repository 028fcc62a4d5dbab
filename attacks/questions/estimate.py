"""Estimate of an audit by questions: the questions are counted, and a few of them are timed."""

from __future__ import annotations

import time

from pfl_audit.attacks.questions.corpora import audited_corpus
from pfl_audit.attacks.questions.inputs import QuestionInputs
from pfl_audit.attacks.questions.opened import open_answering_model
from pfl_audit.core.subject import AuditJob, Estimate
from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import UnanswerableError
from pfl_audit.models.memory import peak_memory
from pfl_audit.models.prompt_template import read_prompt
from pfl_audit.models.protocol import DocumentModel

_SAMPLE = 16
_PER_PARAMETER = 4
"""Bytes, in float32."""
_COMPUTING = "Time is that of asking, with nothing in the store; statistics and attacks on weights come on top"


def estimate_questions(inputs: QuestionInputs, job: AuditJob) -> Estimate:
    """Count the questions of the checks, and time some of them with the model under audit.

    An endpoint is not asked, and recorded answers take no time.

    Raises:
        AuditError: The model or the corpus cannot be opened.
    """
    red = audited_corpus(inputs)
    questions = max(job.planned(red), len(red.queries))
    beside = (inputs.pretrained, inputs.control, inputs.train_control or None)
    models = 1 + sum(name is not None for name in beside) + len(inputs.references)
    if inputs.endpoint is not None:
        note = "The endpoint is not asked; its own estimate is shown, and asked about, before the first question"
        return Estimate(questions, models, None, 0, None, note)
    if inputs.answers is not None:
        return Estimate(questions, models, None, 0, None, "Recorded answers are read, and no model is asked")
    prompt = read_prompt(inputs.prompt) if inputs.prompt is not None else None
    model = open_answering_model(job.checkpoint("questions"), prompt, job)
    each, sample = _timed(model, red)
    parameters = model.describe().get("parameters")
    weights = _PER_PARAMETER * parameters if isinstance(parameters, int) else 0
    memory = peak_memory() + (models - 1) * weights
    return Estimate(questions, models, each * questions * models, sample, memory, _COMPUTING)


def _timed(model: DocumentModel, red: Corpus) -> tuple[float, int]:
    """Seconds a question, and how many were timed; pages that cannot be read are left out."""
    queries = list(red.queries[:: max(1, len(red.queries) // _SAMPLE)][:_SAMPLE])
    done, spent = 0, 0.0
    for query in queries[:1] + queries:  # the first one warms the libraries up
        began = time.monotonic()
        try:
            model.respond([query])
        except UnanswerableError:
            continue
        spent, done = (spent + time.monotonic() - began, done + 1) if done else (0.0, 1)
    return spent / max(1, done - 1), max(0, done - 1)
