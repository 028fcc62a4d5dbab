"""Provider membership inference: was this company's paper in the training set?

Source: privacy-aware-docvqa, section 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pfl_audit.attacks.membership import present
from pfl_audit.attacks.membership.evaluation import Outcome, evaluate
from pfl_audit.attacks.membership.features import G4, MEANING, aggregate, memory_features, query_features
from pfl_audit.attacks.membership.rows import ABLATION, ROWS, AttackRow, spec
from pydantic import BaseModel, ConfigDict, Field

from pfl_audit.audit.attack import QuestionContext
from pfl_audit.audit.engine import QueryEngine
from pfl_audit.audit.results import Check, Metric, Table
from pfl_audit.documents.corpus import Corpus, require_both_classes
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.scrub import THRESHOLD, scrub
from pfl_audit.documents.scrubbed import scrubbed_questions
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.protocol import Capability, Response


class MembershipSettings(BaseModel):
    """Settings of provider membership inference."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    s: tuple[int, ...] = Field(default=(0, 5, 10), description="Subsets: providers with more than s questions")
    seeds: int = Field(default=5, ge=1, le=100, description="Draws of known providers, and of the classifiers")
    share: float = Field(default=0.15, gt=0, lt=0.9, description="Providers whose membership APK knows (r)")
    ablate: bool = Field(default=False, description="Add the ablation of the paper's Table 11")
    forest_search: bool = Field(default=False, description="Tune the random forests by cross-validation")
    threshold: float = Field(default=THRESHOLD, ge=0.5, le=1.0, description="Similarity for taking values off pages")


class MembershipAttack:
    """AZK, APK, their ensembles, and a likelihood ratio."""

    name = "membership"
    specs = tuple(spec(row) for row in ROWS)
    Settings = MembershipSettings

    def run(self, context: QuestionContext, settings: MembershipSettings) -> list[Check]:
        """Ask the models once, then let every attack decide on the same features."""
        require_both_classes(context.red)
        corpus = context.red.where(lambda query: context.red.label(query.document.provider) is not Membership.UNKNOWN)
        rows = [row for row in ROWS if f"membership.{row.id}" in context.checks]
        table = _features(context, corpus, context.target, context.pretrained, rows, settings)
        labels = np.array([corpus.label(provider) is Membership.MEMBER for provider in table.index])
        subsets = _subsets(table, labels, settings.s)
        outcomes: dict[str, list[Outcome]] = {}
        for row in rows:
            base = outcomes.get(row.base or "")
            outcomes[row.id] = _evaluate(context, row, table, labels, subsets, settings, base)
        control = _control(context, corpus, rows, subsets, settings)
        missing = [_left_out(table, labels, s) for s in sorted(set(settings.s) - set(subsets))]
        checks = [
            self._check(context, row, outcomes[row.id], control.get(row.id, []), missing, settings) for row in rows
        ]
        if checks:
            checks[0] = _with_overview(context, checks[0], outcomes, table, labels, settings)
        return checks

    def _check(
        self,
        context: QuestionContext,
        row: AttackRow,
        outcomes: Sequence[Outcome],
        control: Sequence[Outcome],
        missing: Sequence[Metric],
        settings: MembershipSettings,
    ) -> Check:
        description = spec(row)
        main = present.primary(outcomes)
        return description.ran(
            settings={
                **settings.model_dump(mode="json"),
                "features": {column: MEANING[column] for column in row.columns},
                "alpha": context.budget.leak,
            },
            metrics=[metric for outcome in outcomes for metric in present.metrics(outcome, "target")]
            + [*missing]
            + [metric for outcome in control for metric in present.metrics(outcome, "pre-trained")],
            curves=[present.roc(main), present.accuracy_curve(outcomes)],
            finding=present.finding(outcomes, context.budget),
        )


def _features(
    context: QuestionContext,
    corpus: Corpus,
    engine: QueryEngine,
    pretrained: QueryEngine | None,
    rows: Sequence[AttackRow],
    settings: MembershipSettings,
) -> pd.DataFrame:
    """One row a provider, with the columns that the rows use."""
    wanted = {column for row in rows for column in row.columns}
    answers = engine.ask(corpus.queries, "questions to the model")
    before = pretrained.ask(corpus.queries, "the same to the pre-trained model") if pretrained else None
    frame = query_features(corpus.queries, answers.responses, before.responses if before else None)
    if frame.empty:
        reason = f": {answers.problems[0].reason}" if answers.problems else ""
        raise NotAuditableError(f"none of the questions could be answered{reason}", "See 'pfl-audit data check'")
    memory = _memory(context, corpus, engine, settings) if wanted & set(G4) else None
    return aggregate(frame, memory)


def _memory(
    context: QuestionContext, corpus: Corpus, engine: QueryEngine, settings: MembershipSettings
) -> pd.DataFrame:
    """G4: the memorization test on the provider's name, and what changes when nothing was asked."""
    test = scrubbed_questions(corpus, "provider_name", seed=context.seed, threshold=settings.threshold)
    known = engine.ask(test.queries, "provider names on pages without them")
    silent = [_unasked(document, "before") for document in corpus.documents]
    said = engine.ask(silent, "pages without a question")
    pairs = [
        (query, _unasked(_without(query.document, said[query].answer, settings.threshold), "after"))
        for query in silent
        if query in said
    ]
    still = engine.ask([after for _, after in pairs], "the same without the answer")
    responses: Mapping[str, Response] = said.responses | still.responses
    return memory_features(test.queries, known.responses, pairs, responses)


def _unasked(document: Document, when: str) -> Query:
    # The first answer is the one that losses refer to; here no loss is used.
    return Query(f"{document.id}/unasked/{when}", document, "", ("",), "other")


def _without(document: Document, answer: str, threshold: float) -> Document:
    return scrub(document, answer, threshold).document


def _subsets(table: pd.DataFrame, labels: NDArray[np.bool_], wanted: Sequence[int]) -> list[int]:
    """The values of s that leave at least four providers of each class."""
    counts = table["queries"].to_numpy()
    kept = [s for s in sorted(set(wanted)) if min((labels & (counts > s)).sum(), (~labels & (counts > s)).sum()) >= 4]
    if not kept:
        raise NotAuditableError(
            "fewer than four member or non-member providers have questions enough", "Add RED documents, or lower --s"
        )
    return kept


def _left_out(table: pd.DataFrame, labels: NDArray[np.bool_], s: int) -> Metric:
    keep = table["queries"].to_numpy() > s
    return present.left_out(s, int((labels & keep).sum()), int((~labels & keep).sum()))


def _evaluate(
    context: QuestionContext,
    row: AttackRow,
    table: pd.DataFrame,
    labels: NDArray[np.bool_],
    subsets: Sequence[int],
    settings: MembershipSettings,
    base: Sequence[Outcome] | None = None,
) -> list[Outcome]:
    seeds = range(context.seed, context.seed + settings.seeds)
    return [
        evaluate(
            row,
            table,
            labels,
            s,
            seeds=seeds,
            share=settings.share,
            rng=context.rng("bootstrap", s),
            search=settings.forest_search,
            base=None if base is None else base[number],
        )
        for number, s in enumerate(subsets)
    ]


def _control(
    context: QuestionContext,
    corpus: Corpus,
    rows: Sequence[AttackRow],
    subsets: Sequence[int],
    settings: MembershipSettings,
) -> dict[str, list[Outcome]]:
    """The attacks that need answers alone, on the pre-trained model, which has seen no provider."""
    plain = [row for row in rows if row.needs == {Capability.ANSWER}]
    if context.pretrained is None or not plain:
        return {}
    table = _features(context, corpus, context.pretrained, None, plain, settings)
    labels = np.array([corpus.label(provider) is Membership.MEMBER for provider in table.index])
    return {row.id: _evaluate(context, row, table, labels, subsets, settings) for row in plain}


def _with_overview(
    context: QuestionContext,
    check: Check,
    outcomes: Mapping[str, Sequence[Outcome]],
    table: pd.DataFrame,
    labels: NDArray[np.bool_],
    settings: MembershipSettings,
) -> Check:
    """Hang what concerns all attacks on the first check: the paper's tables and the features."""
    tables: list[Table] = [present.accuracy_table("Accuracy of all attacks, per cent", outcomes)]
    rng = None if context.redactor.reveal else context.rng("membership", "points")
    curves = [present.scatter(table, labels, ("acc", "nls"), (MEANING["acc"], MEANING["nls"]), rng)]
    if settings.ablate:
        have = set(table.columns)
        usable = [row for row in ABLATION if set(row.columns) <= have]
        subset = [s for s in (5,) if s in _subsets(table, labels, (0, 5))] or [0]
        ablation = {row.id: _evaluate(context, row, table, labels, subset, settings) for row in usable}
        missing = [
            (row.title, f"{' '.join(row.columns)}: needs {' '.join(sorted(set(row.columns) - have))}")
            for row in ABLATION
            if row not in usable
        ]
        title = "Ablation (KM: K-Means, RF: random forest), accuracy in per cent"
        tables.append(present.accuracy_table(title, ablation, missing))
    return check.model_copy(update={"tables": tables, "curves": [*check.curves, *curves]})


ATTACK = MembershipAttack()
