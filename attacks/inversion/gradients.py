"""Templates, filled pages and gradients: opened, or made as clients would, for an audit of gradient inversion."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from pfl_audit.attacks.inversion.clients import Clients, clipped, place_template, share
from pfl_audit.attacks.inversion.context import Case, Observation, Truth
from pfl_audit.attacks.inversion.controls import FILLINGS
from pfl_audit.attacks.inversion.opened import OpenedGradients
from pfl_audit.attacks.inversion.printed import read_page, with_print
from pfl_audit.attacks.inversion.stated import bound_of, require_stated
from pfl_audit.attacks.inversion.subject import GradientInputs
from pfl_audit.attacks.inversion.template.fields_file import read_words
from pfl_audit.attacks.inversion.template.synthetic import FIELDS, IMAGE, open_templates
from pfl_audit.attacks.inversion.template.template import Template, open_filled, open_template
from pfl_audit.core.results import Data
from pfl_audit.core.store import Records
from pfl_audit.core.subject import AuditJob
from pfl_audit.documents.document import Boxes, as_boxes
from pfl_audit.errors import AuditError
from pfl_audit.files import sha256_json
from pfl_audit.models.gradient_protocol import GradientModel, Sample
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.safetensors_file import read_header
from pfl_audit.models.tensor_file import Entry, read_tensors
from pfl_audit.progress import Progress

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
    inputs.check()
    progress = job.progress
    templates = templates_of(inputs)
    opened = open_gradient_model(job.checkpoint("gradients"), job.device)
    captured = read_gradient(inputs.gradient, opened, progress) if inputs.gradient else None
    if captured is not None and inputs.gradient is not None:
        require_stated(inputs.gradient, captured, inputs)
    if opened.reads and (captured is None or inputs.document is not None):
        templates = tuple(with_print(template) for template in templates)
    placed = [place_template(opened, template, progress) for template in templates]
    if inputs.public is not None:
        placed = [_as_published(inputs.public, opened, templates[0], placed[0])]
    clients = Clients(opened, templates, job.seed, inputs.asked, progress)
    if inputs.stage:
        clients.train(inputs.stage, inputs.stage_rate)
    own = _own_page(inputs, opened, templates[0])
    cases: list[Case] = []
    for number in range(inputs.documents):
        numbers = range(0)
        if captured is not None:
            truths, gradient = [own] if own else [], captured
        else:
            numbers = range(number * (inputs.batch - 1), (number + 1) * (inputs.batch - 1))
            truths = [own or clients.page("document", number), *(clients.page("batch", other) for other in numbers)]
            gradient = clients.noisy(clipped(share(opened, truths), inputs.clip), inputs.noise, number)
        seen = Observation(f"document {number + 1}", placed[number % len(placed)], gradient, inputs.batch, inputs.steps)
        asked = [(page, truth.question) for page, truth in zip((number, *numbers), truths, strict=False)]
        filling = partial(clients.filling, asked)
        remember = inputs.documents * inputs.batch <= _REMEMBERED
        bound = bound_of(inputs, opened, clients, truths, asked, progress)
        cases.append(Case(seen, tuple(truths), lru_cache(FILLINGS)(filling) if remember else filling, bound))
    about = _data(inputs, templates, cases)
    return OpenedGradients(opened, tuple(cases), Records(job.store), job.states, about, inputs.public_form)


def observation_key(model: GradientModel, observation: Observation) -> str:
    """SHA-256 of all that an observer holds, for records of what was recovered from it.

    Weights that training changed (``GradientInputs.stage``) are in it by the gradient, which is theirs alone.
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
    text = model.text(Sample(pixels, *inputs.asked, words, boxes))
    return Truth(model.see(Image.fromarray(pixels)), text, None, inputs.asked[0])


def _data(inputs: GradientInputs, templates: tuple[Template, ...], cases: list[Case]) -> Data:
    values = [value for case in cases for truth in case.truths for value in (truth.values or {}).values()]
    pages = sum(case.seen.batch for case in cases)
    forms = len({case.seen.template.digest for case in cases})
    fields = sum(len(case.seen.template.fields) for case in cases)
    each = f"{len(cases)}, each of {pages // len(cases)} filled page(s)"
    return Data(
        subject="gradients",
        audited="the protocol of updates",
        caveat="This says what one client's update gives away while the model is being trained, and nothing about the "
        "finished model.",
        format="template",
        path=str(inputs.template),
        sha256=sha256_json([template.digest for template in templates]),
        documents=len(cases),
        queries=pages,
        parts={"templates": forms, "fields": fields, "words": sum(len(value.split()) for value in values)},
        facts={"Gradients": f"{each}; templates: {forms}, private fields: {fields}"},
    )


_REMEDY = "Save {name: parameter.grad} of the model's named_parameters(), for the checkpoint that --model names"


def read_gradient(path: Path, model: GradientModel, progress: Progress) -> dict[str, Tensor]:
    """Read a gradient and hold it against the model that it shall be of.

    Args:
        path: A safetensors file. Nothing in it is run, and no tensor is read before its shape was looked at.
        model: Whose parameters give the names and shapes.
        progress: Told which tensors are not there; a client may freeze layers, or keep some to itself.

    Returns:
        float32 by parameter, in the order of the model's parameters.

    Raises:
        UsageError: There is no such file.
        AuditError: It cannot be read, or a tensor in it is no parameter of the model, has another shape, is not of
            floating-point numbers, or holds NaN or infinity.
    """
    own = {name: tuple(parameter.shape) for name, parameter in model.network.named_parameters()}
    entries = read_header(path, remedy="Save it again, with safetensors").entries
    _require_parameters(path, list(entries), own)
    for name, entry in entries.items():
        _require_shape(path, name, entry, own[name])
    found = read_tensors(path, {name: entries[name] for name in own if name in entries}, single=True)
    for name, part in found.items():
        if not bool(torch.isfinite(part).all()):
            raise AuditError(
                f"gradient {path}: tensor {name} holds NaN or infinite values",
                "Take the gradient without mixed precision, or leave that tensor out",
            )
    missing = [name for name in own if name not in found]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        progress.say(f"the gradient lacks {len(missing)} of the model's {len(own)} tensors: {missing[0]}{more}")
    return found


def _require_parameters(path: Path, names: list[str], own: dict[str, tuple[int, ...]]) -> None:
    unknown = [name for name in names if name not in own]
    if len(unknown) == len(names):
        raise AuditError(f"gradient {path}: none of its {len(names)} tensors is a parameter of the model", _REMEDY)
    if unknown:
        raise AuditError(f"gradient {path}: tensor {unknown[0][:80]!r} is no parameter of the model", _REMEDY)


def _require_shape(path: Path, name: str, entry: Entry, own: tuple[int, ...]) -> None:
    if entry.shape != own:
        raise AuditError(f"gradient {path}: tensor {name} is {entry.shape}, the model's parameter {own}", _REMEDY)
    if not entry.dtype.is_floating_point:
        raise AuditError(f"gradient {path}: tensor {name} holds no floating-point numbers ({entry.dtype})", _REMEDY)
