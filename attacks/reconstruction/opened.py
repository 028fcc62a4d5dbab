"""Models and forms of an audit: opened, and what cannot work together refused before the first pass."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pfl_audit.attacks.reconstruction.calls import FormCalls
from pfl_audit.attacks.reconstruction.context import FormContext, FormParts
from pfl_audit.attacks.reconstruction.inputs import FORMS, PUBLIC, FormInputs
from pfl_audit.core.context import AuditContext, context_of
from pfl_audit.core.problems import count_problems, list_problems
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Data
from pfl_audit.core.store import Records
from pfl_audit.core.subject import AuditedModels, AuditJob
from pfl_audit.core.training_record import FILE_NAME, read_training
from pfl_audit.documents.check import check_pages, unusable
from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import PARTS, FormCorpus
from pfl_audit.documents.forms.partition import FormPartition, partition_forms
from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.files import sha256_json
from pfl_audit.models.device import usable_device
from pfl_audit.models.encoders.vocabulary import read_vocabulary
from pfl_audit.models.family import Precision
from pfl_audit.models.form_protocol import FormModel
from pfl_audit.models.open import open_form_model
from pfl_audit.models.openings import FormOpening
from pfl_audit.models.protocol import Capability
from pfl_audit.models.weights import tensor_names
from pfl_audit.progress import Progress

OTHER_FORMS = "training.json names other forms than the private part"
_EPOCH = re.compile(r"epoch-([0-9]{1,9})")


@dataclass(frozen=True, kw_only=True)
class OpenedForms(FormParts):
    """A model that reads the tokens of forms, and the forms.

    Attributes:
        public: Masked language model of public forms, or None.
        unseen: Forms that were left out, because a bimodal model cannot look at their page.
        notes: Further facts about the target, a sentence each.
    """

    inputs: FormInputs
    public: FormModel | None
    unseen: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    def have(self) -> frozenset[str]:
        """Capabilities of the model, and what is given beside it."""
        return frozenset({*self.target.capabilities, FORMS, *([PUBLIC] if self.public is not None else [])})

    def context(self, common: AuditContext) -> AuditContext:
        """Context for the attacks; without a public model no attack can run."""
        if self.public is None:
            return common
        return context_of(FormContext, common, self)

    def models(self) -> AuditedModels:
        """Facts of the model under audit, and of the public one."""
        facts = self.target.describe()
        facts["notes"] = [*facts["notes"], *self.notes]
        beside = (self.public.describe(), self.inputs.public or "") if self.public is not None else None
        return AuditedModels(facts, public=beside)

    def data(self, redactor: Redactor) -> Data:
        """Facts of the forms."""
        queries = sum(len(form.fields) for form in self.corpus.forms)
        parts: dict[str, int] = {part: len(self.parts.of(part)) for part in PARTS}
        parts |= {"near_duplicates": self.parts.near_duplicates, "left_out": len(self.parts.left_out)}
        return Data(
            subject="forms",
            audited="the form encoder",
            format=self.corpus.format,
            path=str(self.inputs.forms),
            sha256=sha256_json([FormCorpus(self.parts.of(part)).digest for part in PARTS]),
            documents=len(self.corpus.forms),
            queries=queries,
            parts=parts,
            facts={
                "Forms": f"{parts['private']} that the model was trained on (private), {parts['public']} public, "
                f"{parts['validation']} new to both, with {queries} fields; {parts['near_duplicates']} have a "
                f"near-duplicate, {parts['left_out']} were left out for it"
            },
            problems=list_problems(self.corpus.problems, self.unseen, redactor),
            unusable=count_problems(self.corpus.problems, self.unseen, redactor),
        )

    def work(self) -> dict[str, int]:
        """Fields that were filled in, and those that were in the store."""
        return {"fields_filled": self.records.put_count, "fields_reused": self.records.got_count}


def open_subject(inputs: FormInputs, job: AuditJob) -> OpenedForms:
    """Open the models and the forms.

    Raises:
        UsageError: The models do not belong together, or the public one knows the private forms; there is no folder
            of epochs; the label map names what is not there; torch has not the device.
        NotAuditableError: No private form can be used.
        AuditError: A checkpoint, an epoch or the forms cannot be opened or divided, or the model knows none of their
            labels.
    """
    model, progress = Path(job.checkpoint("forms")), job.progress
    noise = job.seed if inputs.visual_noise else None
    device = usable_device(job.device)
    epochs = _epochs(inputs.epochs)
    corpus = open_forms(inputs.forms or Path())
    parts = partition_forms(corpus, seed=inputs.split_seed)
    if not parts.private:
        raise NotAuditableError(
            f"none of the {len(corpus.forms)} forms is in the private part, which the model was trained on",
            "Name the parts as docs/forms.md says, or none of them",
        )
    if parts.left_out:
        progress.say(f"{len(parts.left_out)} forms left out: an earlier part holds a near-duplicate")
    label_map = _label_map(inputs.label_map, corpus.labels)

    opened = partial(open_form_model, device=device, batch_tokens=job.batch_tokens)

    def open_target(folder: Path, precision: Precision = "fp32") -> FormModel:
        return opened(str(folder), visual_noise=noise, precision=precision, label_map=label_map)

    target = open_target(model)
    public = opened(inputs.public) if inputs.public else None
    public_target = opened(inputs.public_target, label_map=label_map) if inputs.public_target else None
    _refuse_strangers(target, public, epochs)
    if public_target is not None:
        _refuse_reference(public_target, target, inputs.public_target or "")
    private, own = FormCorpus(parts.private).digest, _trained_on(model)
    elsewhere = bool(own) and own[0] != private  # the target says so itself: then nothing need be found
    notes: tuple[str, ...] = (OTHER_FORMS,) if elsewhere else ()
    if elsewhere:
        progress.say(f"{model}: {OTHER_FORMS}; check --forms and --split-seed, unless that is meant")
    if silent := _of_one_training(model, epochs):
        notes = (*notes, f"whether checkpoints of epochs are of its training is not recorded: {', '.join(silent)}")
        progress.say(notes[-1])
    for flag, name, role in (
        ("--public", inputs.public, "public knowledge"),
        ("--public-target", inputs.public_target, "reference"),
    ):
        if name and private in _trained_on(Path(name)):
            raise UsageError(
                f"{Path(name)} was trained on the private forms, so it is no {role}",
                f"Give {flag} a model that was trained on the public part",
            )
    looked_at = [(target, noise is None), (public, True)]
    if any(seeing and one is not None and one.sees_page for one, seeing in looked_at):
        parts, unseen = _with_pages(parts, progress)
    else:
        unseen = ()
    labels = {field.label for form in (*parts.private, *parts.validation) for field in form.fields}
    if outside := target.require_labels(labels):
        notes = (*notes, f"fields that the model has no tag for are read as outside of fields: {', '.join(outside)}")
        progress.say(notes[-1])

    quick = open_target(model, job.precision) if job.precision != "fp32" else None
    return OpenedForms(
        inputs=inputs,
        target=target,
        public=public,
        quick=quick,
        corpus=corpus,
        parts=parts,
        records=Records(job.store),
        epochs={epoch: partial(open_target, folder) for epoch, folder in epochs.items()},
        public_target=public_target,
        training=(_record(Path(inputs.public)) if inputs.public else {}, _record(model)),
        elsewhere=elsewhere,
        states=job.states,
        device=device,
        calls=_calls(inputs, job, (public, target, quick, public_target), noise, label_map),
        unseen=unseen,
        notes=notes,
    )


def _calls(
    inputs: FormInputs,
    job: AuditJob,
    models: tuple[FormModel | None, FormModel, FormModel | None, FormModel | None],
    noise: int | None,
    label_map: Mapping[str, str],
) -> FormCalls | None:
    """Other processes that open the public model, the target, also in a coarser precision, and the public target."""
    public, target, quick, reference = models
    if public is None or job.pool is None:
        return None
    opened = partial(FormOpening, device=usable_device(job.device), batch_tokens=job.batch_tokens)
    labels = tuple(label_map.items())
    own = partial(opened, job.checkpoint("forms"), visual_noise=noise, label_map=labels)
    found = [opened(str(inputs.public), fingerprint=public.fingerprint), own(fingerprint=target.fingerprint)]
    if quick is not None:
        found.append(own(fingerprint=quick.fingerprint, precision=job.precision))
    if reference is not None:
        found.append(opened(str(inputs.public_target), fingerprint=reference.fingerprint, label_map=labels))
    return FormCalls(job.pool, {one.fingerprint: one for one in found})


def _label_map(entries: Sequence[str], labels: Sequence[str]) -> dict[str, str]:
    """Field label to tag.

    Raises:
        UsageError: An entry is no NAME=TAG, or no form has a field of the label.
    """
    found: dict[str, str] = {}
    for entry in entries:
        name, _, tag = entry.partition("=")
        if not name or not tag:
            raise UsageError(f"--label-map has no NAME=TAG: '{entry[:60]}'", "Give one such as other=O")
        if name not in labels:
            raise UsageError(
                f"--label-map names the label '{name[:60]}', which no form has",
                f"Choose among: {', '.join(labels)[:200]}",
            )
        if found.setdefault(name, tag) != tag:
            raise UsageError(f"--label-map maps the label '{name[:60]}' twice", "Give one tag for it")
    return found


def _epochs(folder: Path | None) -> dict[int, Path]:
    """Epoch to its checkpoint, in order.

    Raises:
        UsageError: There is no such folder.
        AuditError: It holds none.
    """
    if folder is None:
        return {}
    if not folder.exists():
        raise UsageError(f"{folder} does not exist", "Name the folder that --keep-every wrote to")
    named = [(_EPOCH.fullmatch(path.name), path) for path in folder.glob("epoch-*") if path.is_dir()]
    found = {int(match[1]): path for match, path in named if match}
    if not found:
        raise AuditError(f"{folder} holds no checkpoint of an epoch", "Train with --keep-every")
    return dict(sorted(found.items()))


def _refuse_strangers(target: FormModel, public: FormModel | None, epochs: Mapping[int, Path]) -> None:
    """Models that work together read the same tokens, and the public one proposes them.

    Raises:
        UsageError: They do not.
        AuditError: The checkpoint of an epoch is damaged.
    """
    if public is not None and Capability.TOKENS not in public.capabilities:
        raise UsageError(
            f"the public model ({public.family}, {public.task}) has no masked-language head",
            "Give --public a model that was trained with --task mlm",
        )
    if public is not None and public.vocabulary != target.vocabulary:
        raise UsageError(
            "the public model and the target have different vocabularies", "Train them with the same tokenizer"
        )
    for folder in epochs.values():
        tensor_names(folder)
        if read_vocabulary(folder).pieces != target.vocabulary:
            raise UsageError(
                f"{folder} and the target have different vocabularies", "Give the folder of the target's own training"
            )


def _of_one_training(target: Path, epochs: Mapping[int, Path]) -> list[str]:
    """Compare the training that checkpoints record with that of the target.

    Returns:
        Names of the checkpoints of which it is not recorded; all of them where the target does not say.

    Raises:
        UsageError: One is of another training.
    """
    own, silent = _record(target).get("identity"), list[str]()
    for folder in epochs.values():
        training = _record(folder).get("identity")
        if own is None or training is None:
            silent.append(folder.name)
        elif training != own:
            raise UsageError(
                f"{folder} is a checkpoint of another training than the target",
                "Give the folder of the target's own training",
            )
    return silent


def _refuse_reference(reference: FormModel, target: FormModel, name: str) -> None:
    """A reference does what the target does, and reads the same tokens.

    Raises:
        UsageError: It is no reference.
    """
    if (reference.task, reference.vocabulary) != (target.task, target.vocabulary):
        raise UsageError(
            f"{Path(name)} ({reference.task}) has another task or vocabulary than the target ({target.task})",
            "Train it like the target, on the public part: train --part public --from PUBLIC",
        )


def _trained_on(folder: Path) -> list[str]:
    """Digests of the forms that a checkpoint was trained on, its own first, as far as it says."""
    data = _record(folder).get("data")
    if not isinstance(data, dict):
        return []
    before = data.get("before")
    digests = [data.get("sha256"), *(before if isinstance(before, list) else [])]
    return [digest for digest in digests if isinstance(digest, str)]


def _record(folder: Path) -> Mapping[str, object]:
    """The training record of a checkpoint; empty without one."""
    return read_training(folder / FILE_NAME)[0] or {}


def _with_pages(parts: FormPartition, progress: Progress) -> tuple[FormPartition, tuple[Problem, ...]]:
    """The parts without the attacked forms whose page cannot be looked at, and these.

    Raises:
        NotAuditableError: No private form is left.
    """
    unseen = check_pages([form.document for form in (*parts.private, *parts.validation)], progress, _invisible)
    names = {problem.record for problem in unseen}
    private, validation = (
        tuple(form for form in some if form.id not in names) for some in (parts.private, parts.validation)
    )
    if not private:
        raise NotAuditableError(
            f"none of the {len(parts.private)} private forms has a page image that can be opened, and a bimodal "
            "model needs one",
            "Give forms with images, or unimodal models",
        )
    if unseen:
        progress.say(
            f"{len(unseen)} of the private and validation forms left out: a bimodal model cannot look at their page"
        )
    return replace(parts, private=private, validation=validation), tuple(unseen)


def _invisible(document: Document) -> str | None:
    """Why a bimodal model cannot look at the page, or None."""
    reason = unusable(document) if document.image else "it has no page image"
    return None if reason is None else f"{reason}, and a bimodal model needs one"
