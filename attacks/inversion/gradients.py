"""Templates, filled pages and gradients: opened, or made as clients would, for an audit of gradient inversion."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from PIL import Image

from pfl_audit.attacks.inversion.calls import Held, HeldOpening
from pfl_audit.attacks.inversion.captured import read_gradient
from pfl_audit.attacks.inversion.clients import Clients, clipped, place_template, share
from pfl_audit.attacks.inversion.context import Case, Observation, Truth
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.opened import OpenedGradients
from pfl_audit.attacks.inversion.printed import read_page, with_print
from pfl_audit.attacks.inversion.stated import bound_of
from pfl_audit.attacks.inversion.statement import (
    Statement,
    hold_against,
    read_statement,
    require_stated,
    with_statement,
)
from pfl_audit.attacks.inversion.template.fields_file import read_words
from pfl_audit.attacks.inversion.template.synthetic import FIELDS, IMAGE, open_templates
from pfl_audit.attacks.inversion.template.template import Template, open_filled, open_template
from pfl_audit.core.places import is_shipped
from pfl_audit.core.results import Data
from pfl_audit.core.store import Records
from pfl_audit.core.subject import AuditJob
from pfl_audit.documents.document import Boxes, as_boxes
from pfl_audit.files import sha256_json
from pfl_audit.models.calls import Calls
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.openings import GradientOpening
from pfl_audit.models.samples import Sample
from pfl_audit.models.word_tables import LooksUpWords

_REMEMBERED = 8
"""Pages whose other fillings are kept for the next check; they take up to 30 MB a page."""


def open_gradients(inputs: GradientInputs, job: AuditJob) -> OpenedGradients:
    """Open what an audit of gradient inversion needs, and play the clients.

    Raises:
        UsageError: The inputs contradict each other, no field can be used, or the filled page has not the template's
            size.
        NotAuditableError: The model's family takes no gradients, no blank box was found, or the model can only point
            to answers and the page shows none.
        AuditError: The model, the template, the filled page or the gradient cannot be opened, or do not fit.
    """
    stated = read_statement(inputs.gradient) if inputs.gradient else None
    inputs = with_statement(inputs, stated) if stated else inputs
    inputs.check()
    progress = job.progress
    templates = templates_of(inputs)
    opened = open_gradient_model(job.checkpoint("gradients"), job.device)
    wrong: tuple[str, ...] = ()
    captured = read_gradient(inputs.gradient, opened, progress) if inputs.gradient else None
    if captured is not None and inputs.gradient is not None:
        require_stated(inputs.gradient, captured, inputs)
        if stated is not None:
            wrong = hold_against(inputs.gradient, captured, stated, progress, looked_up(opened))
    if opened.reads and (captured is None or inputs.document is not None):
        templates = tuple(with_print(template) for template in templates)
    placed = [place_template(opened, template, progress) for template in templates]
    if inputs.public is not None:
        placed = [_as_published(inputs.public, opened, templates[0], placed[0])]
    clients = Clients(opened, templates, job.seed, inputs.asked, progress)
    if inputs.stage:
        clients.train(inputs.stage, inputs.stage_rate)
    own = _own_page(inputs, opened, templates[0])
    held = Held(opened, clients, inputs.documents * inputs.batch <= _REMEMBERED)
    cases: list[Case] = []
    for number in range(inputs.documents):
        numbers = range(0)
        if captured is not None:
            truths, gradient = [own] if own else [], captured
        else:
            first, forms = number * (inputs.batch - 1), len(templates)  # pages of an update are of one form
            numbers = range(first * forms + number % forms, (first + inputs.batch - 1) * forms + number % forms, forms)
            truths = [own or clients.page("document", number), *(clients.page("batch", other) for other in numbers)]
            gradient = clients.noisy(clipped(share(opened, truths), inputs.clip), inputs.noise, number)
        place = placed[number % len(placed)]
        scaled = place.size != templates[number % len(placed)].size
        seen = Observation(
            f"document {number + 1}",
            place,
            gradient,
            inputs.batch,
            inputs.steps,
            scaled=scaled,
            dropout=(stated.dropout or 0.0) if stated else 0.0,
        )
        asked = tuple((page, truth.question) for page, truth in zip((number, *numbers), truths, strict=False))
        bound = bound_of(inputs, opened, clients, truths, asked, progress)
        drawn = partial(clients.values, asked) if asked else None
        cases.append(Case(seen, tuple(truths), held.filling(asked), asked, bound, drawn))
    built = opened.family == "donut" and is_shipped(job.checkpoint("gradients"))
    about = _data(inputs, templates, cases, _facts(stated, wrong), f"{_CAVEAT} {_BUILT}" if built else _CAVEAT)
    records, calls = Records(job.store), _calls(inputs, job, held, templates)
    return OpenedGradients(
        model=opened,
        cases=tuple(cases),
        records=records,
        states=job.states,
        about=about,
        public_form=inputs.public_form,
        calls=calls,
        workers=job.pool,
    )


def looked_up(model: GradientModel) -> list[str]:
    """Names of the tables whose rows a sample looks up."""
    if (encoder := model.word_encoder()) is not None:
        return [table.name for table in encoder.layout.tables.values()]
    if (decoder := model.text_decoder()) is not None:
        names = decoder.first_layer().parameters
        return [names.word, names.position]
    if isinstance(model, LooksUpWords):
        tables = model.word_tables()
        return [tables.word.name, *(table.name for table in tables.edges.values())]
    return []


def _calls(inputs: GradientInputs, job: AuditJob, held: Held, templates: tuple[Template, ...]) -> Calls[Held] | None:
    """What computes something about an observation, where it is not this process."""
    if job.pool is None:
        return None
    trained = dict(held.model.network.state_dict()) if inputs.stage else None
    made = sha256_json([[template.digest for template in templates], inputs.stage, inputs.stage_rate])
    opening = GradientOpening(job.checkpoint("gradients"), job.device, held.model.fingerprint)
    return job.pool.calls(HeldOpening(opening, made, job.seed, inputs.asked, held.remembers, templates, trained))


def observation_key(model: GradientModel, observation: Observation) -> str:
    """SHA-256 of what searches read of an observation, for records of what they recovered from it.

    Weights that training changed (``GradientInputs.stage``) are in it by the gradient, which is theirs alone. What is
    stated of local steps and dropout is not: only what reads rows and spans takes it into account, and is not kept.
    """
    parts = [model.fingerprint, observation.template.digest, str(observation.batch)]
    digest = hashlib.sha256(sha256_json(parts).encode())
    for name, part in sorted(observation.gradient.items()):
        digest.update(sha256_json([name, list(part.shape)]).encode())
        digest.update(part.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def templates_of(inputs: GradientInputs) -> tuple[Template, ...]:
    """The empty forms, each in its own size.

    Raises:
        AuditError: As ``open_template``.
        NotAuditableError: As ``open_template``.
    """
    template = inputs.template or Path()
    if template.is_dir():
        return open_templates(template)
    beside = template.parent / FIELDS
    fields = beside if inputs.fields is None and template.name == IMAGE and beside.is_file() else inputs.fields
    return (open_template(template, fields),)


def _as_published(public: Path, model: GradientModel, template: Template, placed: Template) -> Template:
    """The form on the network's page, with the pixels that the observer has of it."""
    return replace(placed, pixels=model.see(Image.fromarray(open_filled(public, template, "public template"))))


def _own_page(inputs: GradientInputs, model: GradientModel, template: Template) -> Truth | None:
    """The filled page of the user's own, with the words that its model read where they are given."""
    if inputs.document is None or inputs.asked is None:
        return None
    pixels = open_filled(inputs.document, template)
    none: tuple[tuple[str, ...], Boxes] = ((), as_boxes([], 0))
    read = read_page(pixels) if model.reads and inputs.words is None else none
    words, boxes = read if inputs.words is None else read_words(inputs.words, template.size)
    text = model.text(Sample(*inputs.asked, words, boxes))
    return Truth(model.see(Image.fromarray(pixels)), text, None, inputs.asked[0])


_CAVEAT = (
    "This says what one client's update gives away while the model is being trained, and nothing about the finished "
    "model."
)
_BUILT = (
    "The embedded Donut was built so that a search can read the page (one attention window over all of it, patches "
    "of 16 x 16, sharp attention). Of an ordinary Donut at its beginning the same search matched the gradient and "
    "left the private fields as noise. Donut's text, LayoutLM, LayoutLMv3 and VT5 need no such help: closed forms "
    "read their words."
)


def _data(
    inputs: GradientInputs, templates: tuple[Template, ...], cases: list[Case], stated: dict[str, str], caveat: str
) -> Data:
    values = [value for case in cases for truth in case.truths for value in (truth.values or {}).values()]
    pages = sum(case.seen.batch for case in cases)
    forms = len({case.seen.template.digest for case in cases})
    fields = sum(len(case.seen.template.fields) for case in cases)
    each = f"{len(cases)}, each of {pages // len(cases)} filled page(s)"
    return Data(
        subject="gradients",
        chosen=True,
        audited="the protocol of updates",
        caveat=caveat,
        format="template",
        path=str(inputs.template),
        sha256=sha256_json([template.digest for template in templates]),
        documents=len(cases),
        queries=pages,
        parts={"templates": forms, "fields": fields, "words": sum(len(value.split()) for value in values)},
        facts={"Gradients": f"{each}; templates: {forms}, private fields: {fields}"} | stated,
    )


def _facts(stated: Statement | None, wrong: Sequence[str]) -> dict[str, str]:
    """What is stated of an update, and what of it the numbers contradict, for the report."""
    facts = {"Stated of the update": stated.lines() if stated else "", "Contradicted by its numbers": "; ".join(wrong)}
    return {name: words for name, words in facts.items() if words}
