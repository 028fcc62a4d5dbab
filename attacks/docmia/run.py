"""The checks of document membership by optimisation, run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from pfl_audit.attacks.docmia.optimise import optimise_documents
from pfl_audit.attacks.docmia.specs import PARTS, PROXY, PROXY_ROW, WHOLE, DocmiaSettings
from pfl_audit.attacks.membership import present
from pfl_audit.attacks.membership.basis import Basis, documents_alone, make_basis
from pfl_audit.attacks.membership.classifiers import draw_known, predict_kmeans
from pfl_audit.attacks.membership.decision import Decision, decide_membership
from pfl_audit.attacks.membership.evaluation import Outcome, Trial, measure
from pfl_audit.attacks.membership.present_decision import finding, metrics
from pfl_audit.attacks.membership.rows import AttackRow
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.trained_control import train_beside
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.failures import failure
from pfl_audit.core.results import Check
from pfl_audit.documents.corpus import Corpus, require_both_classes
from pfl_audit.errors import NotAuditableError
from pfl_audit.files import sha256_json
from pfl_audit.metrics.arrays import Floats
from pfl_audit.training.settings import TrainSettings

FEWEST = 4
"""Documents of each class below which nothing is measured."""
_KNOWN = 0.15
"""Share of the documents that is set aside, on which the competence of a control is measured."""


def run_checks(context: QuestionContext, settings: DocmiaSettings) -> list[Check]:
    """Optimise on every document, and judge the scores together; one finding that fails leaves the other alone."""
    require_both_classes(context.red)
    run = _Run(context, settings)
    checks: list[Check] = []
    for lead, method in ((WHOLE, run.white_box), (PROXY, run.black_box)):
        if lead.id not in context.checks:
            continue
        try:
            checks += method()
        except Exception as error:
            reason = failure(error, lead.id, context)
            own = (spec for spec in (lead, *PARTS.values()) if lead.id in (spec.id, spec.part_of))
            checks += [spec.not_run(*reason) for spec in own if spec.id in context.checks]
    return checks


def score(row: AttackRow, table: pd.DataFrame, seed: int) -> Trial:
    """Scores and calls of one attack on all documents, higher for members; no label is used.

    Args:
        table: ``distance``, ``steps``, ``before`` and ``after`` of every document, float64.
        seed: Seed of the clusters.
    """
    every = np.arange(len(table))
    if row.id == "clusters":
        features = table[["distance", "steps", "before", "after"]].to_numpy(dtype=np.float64)
        orient = -table["distance"].to_numpy(dtype=np.float64)
        called = predict_kmeans(features, orient, seed)
        return Trial(every, called, called.astype(np.float64), orient)
    column = {"steps": "steps", "loss": "before"}.get(row.id, "distance")
    values = table["before"] - table["after"] if row.id == "fall" else table[column]
    scores: Floats = -np.asarray(values, dtype=np.float64)
    return Trial(every, predict_kmeans(scores[:, None], scores, seed), scores, scores)


class _Run:
    """The attacks on all documents of known membership."""

    def __init__(self, context: QuestionContext, settings: DocmiaSettings) -> None:
        self.context, self.settings, self.members = context, settings, context.members
        self.corpus = context.red.where(lambda query: query.document.unit in self.members)

    def white_box(self) -> list[Check]:
        """Checks with the weights of the model under audit; a control is optimised in the same way."""
        context = self.context
        tables = {"target": self._table("target")}
        others = [name for name in ("control", "pre-trained") if name in context.models and name in context.weights]
        if others:
            tables["control"] = self._table(others[0])
            both = tables["target"].index.intersection(tables["control"].index)
            tables = {model: table.loc[both] for model, table in tables.items()}
        outcomes, decision, basis = self._judged(tuple(PARTS), tables, others[0] if others else None)
        checks = [
            self._part(spec, outcomes["target"][row.id]) for row, spec in PARTS.items() if spec.id in context.checks
        ]
        return [self._whole(WHOLE, decision, outcomes, basis), *checks]

    def black_box(self) -> list[Check]:
        """The distance of a proxy model that was trained on the answers of the model under audit."""
        folder, corpus = self._proxy()
        fingerprint = sha256_json([(folder / "training.json").read_text(encoding="utf-8")])
        workers = self.context.workers
        if workers is not None and not workers.shares_files:  # the proxy is on this machine alone
            workers = None
        purpose = "documents, on the proxy model"
        table = optimise_documents(folder, fingerprint, corpus, self.settings, self.context, purpose, workers)
        outcomes, decision, basis = self._judged((PROXY_ROW,), {"target": table}, None)
        return [self._whole(PROXY, decision, outcomes, basis)]

    def _table(self, name: str) -> pd.DataFrame:
        context, purpose = self.context, f"documents, on the {name} model"
        fingerprint = context.models[name].model.fingerprint
        return optimise_documents(
            context.weights[name], fingerprint, self.corpus, self.settings, context, purpose, context.workers
        )

    def _judged(
        self, rows: Sequence[AttackRow], tables: Mapping[str, pd.DataFrame], control: str | None
    ) -> tuple[dict[str, dict[str, Outcome]], Decision, Basis]:
        documents = tables["target"].index
        labels = np.array([self.members[unit] for unit in documents], dtype=bool)
        if min(int(labels.sum()), int((~labels).sum())) < FEWEST:
            raise NotAuditableError(
                f"fewer than {FEWEST} members or non-members could be optimised on", "Give more documents"
            )
        context = self.context
        known = draw_known(labels, _KNOWN, context.seed)
        test = np.setdiff1d(np.arange(len(labels)), known)
        groups = [context.groups[unit] for unit in documents]

        def measured(row: AttackRow, table: pd.DataFrame) -> Outcome:
            whole = score(row, table, context.seed)
            trial = Trial(test, whole.calls[test], whole.scores[test], whole.order[test])
            return measure(row, 0, labels, (trial,), context.rng("docmia", "bootstrap"), groups)

        outcomes = {model: {row.id: measured(row, table) for row in rows} for model, table in tables.items()}
        kept = frozenset(documents)
        corpus = self.corpus.where(lambda query: query.document.unit in kept)
        blind = documents_alone(context, corpus, "docmia")
        basis = make_basis(context, corpus, documents, next(iter(outcomes["target"].values())), blind, control)
        decision = decide_membership(
            [*outcomes["target"].values()],
            outcomes.get("control", {}),
            basis,
            context.budget,
            context.rng("docmia", "permutation"),
        )
        return outcomes, decision, basis

    def _part(self, spec: CheckSpec, outcome: Outcome) -> Check:
        return spec.ran(
            settings=self.settings.model_dump(mode="json"),
            metrics=present.metrics(outcome, "target", self.context.unit),
            curves=[present.roc(outcome)],
        )

    def _whole(
        self, spec: CheckSpec, decision: Decision, outcomes: Mapping[str, Mapping[str, Outcome]], basis: Basis
    ) -> Check:
        context, strongest = self.context, decision.strongest.outcome
        beside = {name: found[strongest.row.id] for name, found in outcomes.items() if name == "control"}
        own = [] if len(outcomes["target"]) > 1 else present.metrics(strongest, "proxy", context.unit)
        return spec.ran(
            settings=self.settings.model_dump(mode="json") | {"alpha": context.budget.leak},
            metrics=[*metrics(decision, "control", context.unit), *own],
            curves=[present.roc(strongest, beside)],
            finding=finding(decision, basis, "the same optimisation of a model that saw neither class"),
        )

    def _proxy(self) -> tuple[Path, Corpus]:
        """The proxy model, and the corpus with the answers of the model under audit in place of the right ones."""
        context = self.context
        start = context.weights.get("pre-trained")
        if start is None or context.states is None:
            raise NotAuditableError(
                "the pre-trained model cannot be trained, so that it is no proxy", "Give --pretrained a VT5 or Donut"
            )
        answers = context.target.ask(self.corpus.queries, "questions to the model, for its proxy")
        queries = tuple(
            replace(query, answers=(answers[query].answer,), document=replace(query.document, split="blue_train"))
            for query in self.corpus.queries
            if query in answers and answers[query].answer.strip()
        )
        if not queries:
            raise NotAuditableError("the model answered none of the questions", "See 'pfl-audit data check'")
        corpus = replace(self.corpus, queries=queries, membership={})
        steps = self.settings.proxy_steps
        settings = TrainSettings(steps=steps, batch_size=16, validate_every=steps + 1, save_every=50, seed=context.seed)
        folder = train_beside(corpus, start, context.states / "docmia", settings, context.device, context.progress)
        return folder, corpus
