"""Templates, filled pages and gradients: opened, or made as clients would, for an audit of gradient inversion."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import Any

from PIL import Image

from pfl_audit.core.gradient_case import Case, Observation, Truth
from pfl_audit.core.gradient_clients import Clients, place_template, share
from pfl_audit.core.gradient_file import read_gradient
from pfl_audit.core.results import Data
from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.core.subjects import OpenedGradients
from pfl_audit.documents.document import as_boxes
from pfl_audit.documents.template.synthetic import FIELDS, IMAGE, open_templates
from pfl_audit.documents.template.template import Template, open_filled, open_template
from pfl_audit.errors import UsageError
from pfl_audit.files import sha256_json
from pfl_audit.models.gradient_protocol import GradientModel, Sample
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.printed import read_page, with_print
from pfl_audit.progress import Progress


@dataclass(frozen=True)
class GradientPlan:
    """What a model is audited with, of which a client shares a gradient.

    Attributes:
        template: Picture of an empty form, or a folder of forms as ``make_templates`` writes it.
        fields: ``fields.json`` of a picture; taken from beside one that is called template.png where it is None, and
            found on the picture where none lies there.
        document: A filled page, or None to fill pages in as clients would.
        question: Asked about every page, with ``answer``; or None to ask about a field that chance picks.
        answer: What training asks for.
        gradient: A captured gradient, or None to compute it.
        batch: Samples that a gradient is the mean over.
        documents: How many pages are filled in, each with a gradient of its own.
        noise: Standard deviation of what is added to every entry of a gradient that is computed.
        stage: Steps that the model is trained on other pages before the gradient is taken; the observer knows its
            weights then.
        stage_rate: Learning rate of these steps.
        public: Picture of the form as it was published, and so as the observer has it, where that is not what the
            client fills in; None where it is.
        public_form: The empty form holds nothing that identifies, as the embedded ones do: masked reports show it.
    """

    template: Path
    fields: Path | None = None
    document: Path | None = None
    question: str | None = None
    answer: str | None = None
    gradient: Path | None = None
    batch: int = 1
    documents: int = 1
    noise: float = 0.0
    stage: int = 0
    stage_rate: float = 1e-3
    public: Path | None = None
    public_form: bool = False

    def identity(self) -> dict[str, Any]:
        """What decides the results."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}

    @property
    def asked(self) -> tuple[str, str] | None:
        """Question and answer, where they are given."""
        return (self.question, self.answer) if self.question is not None and self.answer is not None else None

    def check(self) -> None:
        """Raise UsageError where parts of the plan contradict each other."""
        numbers = (("batch", self.batch, 1), ("documents", self.documents, 1), ("noise", self.noise, 0),
                   ("stage", self.stage, 0))  # fmt: skip
        for name, value, least in numbers:
            if not (isfinite(value) and value >= least):
                raise UsageError(f"{name} is {value}, and not {least} or more", "Correct it")
        if not (isfinite(self.stage_rate) and self.stage_rate > 0):
            raise UsageError("the learning rate of the stage is not above 0", "Correct it")
        if (self.question is None) != (self.answer is None):
            raise UsageError("--question and --answer belong together", "Give both, or neither")
        if self.document is not None and self.asked is None:
            raise UsageError(
                "--document needs --question and --answer: what the client trained on is more than its page",
                "Give both",
            )
        single = [name for name, value in (("--document", self.document), ("--gradient", self.gradient)) if value]
        if single and self.documents != 1:
            raise UsageError(f"{single[0]} is of one document, not of {self.documents}", "Leave --documents out")
        if single and self.template.is_dir():
            raise UsageError(f"{single[0]} is of one form, and {self.template} a folder", "Name its template.png")
        if self.fields is not None and self.template.is_dir():
            raise UsageError(f"--fields is of one form, and {self.template} is a folder", "Name its template.png")
        if self.public is not None and self.template.is_dir():
            raise UsageError(f"--public is of one form, and {self.template} a folder", "Name its template.png")
        if self.gradient is not None and (self.noise or self.stage):
            raise UsageError("a gradient that is given is taken as it is", "Leave --noise and --stage out")
        if self.gradient is not None and self.document is not None and self.batch > 1:
            raise UsageError(
                "the other pages of the batch are unknown, so that nothing can be scored", "Leave --document out"
            )


def open_gradients(
    plan: GradientPlan, model: str, device: str, store: ResponseStore, states: Path, seed: int, progress: Progress
) -> OpenedGradients:
    """Open what an audit of gradient inversion needs.

    Args:
        plan: With what.
        model: The checkpoint under audit.
        device: torch's name of the device.
        store: Where the records of what was recovered are kept.
        states: Folder where searches may keep their state; need not exist.
        seed: Of everything drawn.
        progress: Told of fields and tensors that are left out, and of training.

    Raises:
        UsageError: The plan contradicts itself, no field can be used, or the filled page has not the template's size.
        NotAuditableError: The model's family takes no gradients, no blank box was found, or the model can only point
            to answers and none stands on the page.
        AuditError: The model, the template, the filled page or the gradient cannot be opened, or do not fit.
    """
    plan.check()
    templates = templates_of(plan)
    opened = open_gradient_model(model, device)
    captured = read_gradient(plan.gradient, opened, progress) if plan.gradient else None
    if opened.reads and (captured is None or plan.document is not None):
        templates = tuple(with_print(template) for template in templates)
    placed = [place_template(opened, template, progress) for template in templates]
    if plan.public is not None:
        placed = [_as_published(plan.public, opened, templates[0], placed[0])]
    clients = Clients(opened, templates, seed, plan.asked, progress)
    if plan.stage:
        clients.train(plan.stage, plan.stage_rate)
    own = _own_page(plan.document, plan.asked, opened, templates[0]) if plan.document and plan.asked else None
    cases: list[Case] = []
    for number in range(plan.documents):
        if captured is not None:
            truths, gradient = [own] if own else [], captured
        else:
            others = range(number * (plan.batch - 1), (number + 1) * (plan.batch - 1))
            truths = [own or clients.page("document", number), *(clients.page("batch", other) for other in others)]
            gradient = clients.noisy(share(opened, truths), plan.noise, number)
        seen = Observation(f"document {number + 1}", placed[number % len(placed)], gradient, plan.batch)
        cases.append(Case(seen, tuple(truths)))
    about = _data(plan, templates, cases)
    return OpenedGradients(opened, tuple(cases), Records(store), states, about, plan.public_form)


def observation_key(model: GradientModel, observation: Observation) -> str:
    """SHA-256 of all that an observer holds, for records of what was recovered from it.

    Weights that training changed (``GradientPlan.stage``) are in it by the gradient, which is theirs alone.
    """
    parts = [model.fingerprint, observation.template.digest, str(observation.batch)]
    digest = hashlib.sha256(sha256_json(parts).encode())
    for name, part in sorted(observation.gradient.items()):
        digest.update(sha256_json([name, list(part.shape)]).encode())
        digest.update(part.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def templates_of(plan: GradientPlan) -> tuple[Template, ...]:
    """The empty forms of a plan, each in its own size.

    Raises:
        AuditError: As ``open_template``.
        NotAuditableError: As ``open_template``.
    """
    if plan.template.is_dir():
        return open_templates(plan.template)
    beside = plan.template.parent / FIELDS
    fields = beside if plan.fields is None and plan.template.name == IMAGE and beside.is_file() else plan.fields
    return (open_template(plan.template, fields),)


def _as_published(public: Path, model: GradientModel, template: Template, placed: Template) -> Template:
    """The form on the network's page, with the pixels that the observer has of it."""
    return replace(placed, pixels=model.see(Image.fromarray(open_filled(public, template, "public template"))))


def _own_page(document: Path, asked: tuple[str, str], model: GradientModel, template: Template) -> Truth:
    """The filled page of the user's own."""
    pixels = open_filled(document, template)
    words, boxes = read_page(pixels) if model.reads else ((), as_boxes([], 0))
    text = model.text(Sample(pixels, *asked, words, boxes))
    return Truth(model.see(Image.fromarray(pixels)), text, None)


def _data(plan: GradientPlan, templates: tuple[Template, ...], cases: list[Case]) -> Data:
    values = [value for case in cases for truth in case.truths for value in (truth.values or {}).values()]
    return Data(
        format="template",
        path=str(plan.template),
        sha256=sha256_json([template.digest for template in templates]),
        documents=len(cases),
        queries=sum(case.seen.batch for case in cases),
        parts={
            "templates": len({case.seen.template.digest for case in cases}),
            "fields": sum(len(case.seen.template.fields) for case in cases),
            "words": sum(len(value.split()) for value in values),
        },
    )
