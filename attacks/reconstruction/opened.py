"""Models and forms of an audit, opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pfl_audit.attacks.reconstruction.context import FormContext
from pfl_audit.attacks.reconstruction.subject import FORMS, PUBLIC, FormInputs
from pfl_audit.core.context import AuditContext
from pfl_audit.core.problems import list_problems
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Data
from pfl_audit.core.store import Records
from pfl_audit.core.subject import AuditedModels
from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.forms.form import PARTS, FormCorpus
from pfl_audit.documents.forms.partition import FormPartition
from pfl_audit.models.form_protocol import FormModel


@dataclass(frozen=True)
class OpenedForms:
    """A model that reads the tokens of forms, and the forms.

    Attributes:
        public: Masked language model of public forms, or None.
        parts: Private, public and validation forms.
        epochs: Epoch of the target's training to a function that opens its checkpoint.
        quick: The target in a coarser precision, or None.
        unseen: Forms that were left out, because a bimodal model cannot look at their page.
        notes: Further facts about the target, a sentence each.
    """

    inputs: FormInputs
    target: FormModel
    public: FormModel | None
    corpus: FormCorpus
    parts: FormPartition
    records: Records
    epochs: Mapping[int, Callable[[], FormModel]]
    quick: FormModel | None = None
    unseen: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()

    def have(self) -> frozenset[str]:
        """Capabilities of the model, and what is given beside it."""
        return frozenset({*self.target.capabilities, FORMS, *([PUBLIC] if self.public is not None else [])})

    def context(self, common: AuditContext) -> AuditContext:
        """Context for the attacks; without a public model no attack can run."""
        if self.public is None:
            return common
        return FormContext(
            target=self.target,
            public=self.public,
            corpus=self.corpus,
            parts=self.parts,
            records=self.records,
            epochs=self.epochs,
            quick=self.quick,
            **common.shared(),
        )

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
            format=self.corpus.format,
            path=str(self.inputs.forms),
            sha256=self.corpus.digest,
            documents=len(self.corpus.forms),
            queries=queries,
            parts=parts,
            facts={
                "Forms": f"{parts['private']} that the model was trained on (private), {parts['public']} public, "
                f"{parts['validation']} new to both, with {queries} fields; {parts['near_duplicates']} have a "
                f"near-duplicate, {parts['left_out']} were left out for it"
            },
            problems=list_problems(self.corpus.problems, self.unseen, redactor),
        )

    def work(self) -> dict[str, int]:
        """Fields that were filled in, and those that were in the store."""
        return {"fields_filled": self.records.put_count, "fields_reused": self.records.got_count}
