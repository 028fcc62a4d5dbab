"""The checks of provider membership inference, run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pfl_audit.attacks.membership import present
from pfl_audit.attacks.membership.attack import MembershipSettings
from pfl_audit.attacks.membership.blind import Blind, blind_baseline
from pfl_audit.attacks.membership.decision import decide_membership
from pfl_audit.attacks.membership.document_features import document_features
from pfl_audit.attacks.membership.evaluation import Outcome, columns_used, evaluate, measure, subset, trial_of
from pfl_audit.attacks.membership.features import aggregate, memory_features, query_features
from pfl_audit.attacks.membership.present import present_blind
from pfl_audit.attacks.membership.present_decision import access_table, accuracies, finding, metrics
from pfl_audit.attacks.membership.provider_attack import provider_attacks
from pfl_audit.attacks.membership.references import with_scores
from pfl_audit.attacks.membership.rows import (
    ABLATION,
    BLIND,
    DOCUMENTS,
    G4,
    MEANING,
    PROVIDER,
    ROWS,
    SCORES,
    SCRUBBED_RATIO,
    WHOLE,
    AttackRow,
    every_row,
    spec,
)
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.results import Check, Curve, Metric, Table
from pfl_audit.core.settings import read_settings
from pfl_audit.documents.corpus import Corpus, require_both_classes
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.scrubbing.questions import scrubbed_questions
from pfl_audit.documents.scrubbing.scrub import scrub
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.protocol import Response


def run_checks(context: QuestionContext, settings: MembershipSettings) -> list[Check]:
    """Ask the models once, let every attack decide on the same features, and judge the attacks together."""
    require_both_classes(context.red)
    corpus = context.red.where(lambda query: context.red.label(query.document.provider) is not Membership.UNKNOWN)
    rows = [_bound(row, settings) for row in every_row() if f"membership.{row.id}" in context.checks] or [ROWS[0]]
    tables = _tables(context, corpus, rows, settings)
    table = tables["target"]
    labels = np.array([corpus.label(provider) is Membership.MEMBER for provider in table.index])
    subsets = _subsets(table, labels, settings.s)
    outcomes, control = (
        _outcomes(context, rows, tables[name], labels, subsets, settings) if name in tables else {}
        for name in ("target", "control")
    )
    blind = _blind(context, corpus)
    missing = [_left_out(table, labels, s) for s in sorted(set(settings.s) - set(subsets))]
    checks = [
        _part(context, row, table, outcomes[row.id], control.get(row.id, []), missing, settings)
        for row in rows
        if f"membership.{row.id}" in context.checks
    ]
    if PROVIDER in context.checks:
        checks.append(_whole(context, outcomes, control, blind, tables, labels, settings))
    if BLIND in context.checks:
        checks.append(present_blind(blind))
    return checks


def _bound(row: AttackRow, settings: MembershipSettings) -> AttackRow:
    """The row of an attack from another package with its function; any other row as it is.

    Raises:
        UsageError: Its settings are wrong.
    """
    attack = provider_attacks().get(row.id) if row.kind == "external" else None
    if attack is None:
        return row
    given = read_settings(attack.Settings, settings.provider_attacks.get(row.id, {}), row.id)
    return replace(row, scores=partial(attack.scores, settings=given))


def _part(
    context: QuestionContext,
    row: AttackRow,
    table: pd.DataFrame,
    outcomes: Sequence[Outcome],
    control: Sequence[Outcome],
    missing: Sequence[Metric],
    settings: MembershipSettings,
) -> Check:
    """One attack; what it means is said of all attacks together."""
    used = [*columns_used(row, table), *(column for column in row.columns if column not in row.features)]
    unused = [column for column in row.columns if column not in table]
    return spec(row).ran(
        settings={
            **settings.model_dump(mode="json"),
            "features": {column: MEANING[column] for column in used},
            **({"features without values": unused} if unused else {}),
            "decided at s": present.primary(outcomes).s,
        },
        metrics=[metric for outcome in outcomes for metric in present.metrics(outcome, "target")]
        + [*missing]
        + [metric for outcome in control for metric in present.metrics(outcome, _control_name(context))],
        curves=[present.roc(present.primary(outcomes)), present.accuracy_curve(outcomes)],
    )


def _whole(
    context: QuestionContext,
    outcomes: Mapping[str, Sequence[Outcome]],
    control: Mapping[str, Sequence[Outcome]],
    blind: Blind,
    tables: Mapping[str, pd.DataFrame],
    labels: NDArray[np.bool_],
    settings: MembershipSettings,
) -> Check:
    """The finding, and the tables that concern all attacks."""
    main = {name: present.primary(found) for name, found in outcomes.items()}
    beside = {
        name: next(there for here, there in zip(outcomes[name], found, strict=False) if here is main[name])
        for name, found in control.items()
    }
    documents = _documents_alone(context, blind, tables["target"], labels, next(iter(main.values())).s, settings)
    trusted = bool(control) or context.classes_random
    decision = decide_membership(
        [*main.values()], beside, documents, context.budget, context.rng("membership", "permutation"), trusted=trusted
    )
    strongest = decision.strongest.outcome
    others = {"control": beside[strongest.row.id]} if strongest.row.id in beside else {}
    others["documents alone"] = documents
    overview, curves = _overview(context, outcomes, tables["target"], labels, settings)
    found = {name: table["acc"].groupby(labels).mean() for name, table in tables.items()}
    accuracy = accuracies({name: (means[True], means[False]) for name, means in found.items()})
    by_access = access_table(decision)
    return WHOLE.ran(
        settings={"alpha": context.budget.leak, "classes drawn at random": context.classes_random},
        metrics=metrics(decision, _control_name(context)),
        tables=[by_access.model_copy(update={"note": f"{by_access.note} {accuracy}"}), *overview],
        curves=[present.roc(strongest, others), *curves],
        finding=finding(decision, _control_words(context) if control else None, trusted=trusted),
    )


def _blind(context: QuestionContext, corpus: Corpus) -> Blind:
    """How well the documents alone distinguish members from non-members."""
    described = document_features(corpus, context.progress)
    labels = np.array([corpus.label(provider) is Membership.MEMBER for provider in described.providers])
    return blind_baseline(described, labels, context.rng("membership", "blind"))


def _documents_alone(
    context: QuestionContext,
    blind: Blind,
    table: pd.DataFrame,
    labels: NDArray[np.bool_],
    s: int,
    settings: MembershipSettings,
) -> Outcome:
    """The blind baseline on the providers that the attacks are judged on, resampled like these."""
    scores = pd.Series(blind.scores, index=list(blind.providers))
    chosen, chosen_labels = subset(table, labels, s)
    found: NDArray[np.float64] = np.asarray(scores[chosen.index], dtype=np.float64)
    seeds = range(context.seed, context.seed + settings.seeds)
    trials = tuple(trial_of(found, found > 0, chosen_labels, seed, settings.share) for seed in seeds)
    return measure(DOCUMENTS, s, chosen_labels, trials, context.rng("bootstrap", s))


def _control_name(context: QuestionContext) -> str:
    return "control" if context.control is not None else "pre-trained"


def _control_words(context: QuestionContext) -> str:
    if context.control is not None:
        return "a model that saw neither class (--control)"
    return (
        "the pre-trained model: it excludes what an untrained reader sees in the pages, not what training on other "
        "companies would change; a model of equal competence that saw neither class (--control) would"
    )


def _tables(
    context: QuestionContext, corpus: Corpus, rows: Sequence[AttackRow], settings: MembershipSettings
) -> dict[str, pd.DataFrame]:
    """Features of the same providers under the model under audit and, where there is one, under the control."""
    tables = {"target": _features(context, corpus, context.target, context.pretrained, rows, settings)}
    control = context.control or context.pretrained
    if control is not None:
        before = context.pretrained if context.control is not None else None
        tables["control"] = _features(context, corpus, control, before, rows, settings)
        both = tables["target"].index.intersection(tables["control"].index)
        tables = {name: table.loc[both] for name, table in tables.items()}
        tables["control"] = tables["control"].assign(queries=tables["target"]["queries"])
        if SCRUBBED_RATIO not in tables["target"]:  # what the target is not attacked by, the control is not either
            tables["control"] = tables["control"].drop(columns=[SCRUBBED_RATIO, "loglik_mem"], errors="ignore")
    return tables


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
    references = [
        engine.ask(corpus.queries, f"the same to reference model {number} of {len(context.references)}").responses
        for number, engine in enumerate(context.references if wanted & set(SCORES) else (), 1)
    ]
    frame = query_features(corpus.queries, answers.responses, before.responses if before else None, references)
    if frame.empty:
        reason = f": {answers.problems[0].reason}" if answers.problems else ""
        raise NotAuditableError(f"none of the questions could be answered{reason}", "See 'pfl-audit data check'")
    memory = None
    if wanted & {*G4, SCRUBBED_RATIO}:
        memory = _memory(context, corpus, engine, pretrained if SCRUBBED_RATIO in wanted else None, settings)
    table = aggregate(frame, memory)
    return with_scores(table, len(references)) if references else table


def _memory(
    context: QuestionContext,
    corpus: Corpus,
    engine: QueryEngine,
    pretrained: QueryEngine | None,
    settings: MembershipSettings,
) -> pd.DataFrame:
    """The memorization test on the provider's name, also against the public model, and what changes unasked."""
    test = scrubbed_questions(corpus, "provider_name", seed=context.seed, threshold=settings.threshold)
    known = engine.ask(test.queries, "provider names on pages without them")
    before = pretrained.ask(test.queries, "the same to the pre-trained model").responses if pretrained else None
    silent = [_unasked(document, "before") for document in corpus.documents]
    said = engine.ask(silent, "pages without a question")
    pairs = [
        (query, _unasked(scrub(query.document, said[query].answer, settings.threshold).document, "after"))
        for query in silent
        if query in said
    ]
    still = engine.ask([after for _, after in pairs], "the same without the answer")
    responses: Mapping[str, Response] = said.responses | still.responses
    return memory_features(test.queries, known.responses, pairs, responses, before)


def _unasked(document: Document, when: str) -> Query:
    # The first answer is the one that losses refer to; here no loss is used.
    return Query(f"{document.id}/unasked/{when}", document, "", ("",), "other")


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


def _outcomes(
    context: QuestionContext,
    rows: Sequence[AttackRow],
    table: pd.DataFrame,
    labels: NDArray[np.bool_],
    subsets: Sequence[int],
    settings: MembershipSettings,
) -> dict[str, list[Outcome]]:
    """Every attack on every subset; votes join the calls of the attack that they are based on."""
    found: dict[str, list[Outcome]] = {}
    for row in rows:
        found[row.id] = [
            evaluate(
                row,
                table,
                labels,
                s,
                seeds=range(context.seed, context.seed + settings.seeds),
                share=settings.share,
                rng=context.rng("bootstrap", s),
                search=settings.forest_search,
                base=found[row.base][number] if row.base in found else None,
            )
            for number, s in enumerate(subsets)
        ]
    return found


def _overview(
    context: QuestionContext,
    outcomes: Mapping[str, Sequence[Outcome]],
    table: pd.DataFrame,
    labels: NDArray[np.bool_],
    settings: MembershipSettings,
) -> tuple[list[Table], list[Curve]]:
    """The paper's tables, and two features of the providers."""
    tables = [present.accuracy_table("Accuracy of all attacks, per cent", outcomes)]
    rng = None if context.redactor.reveal else context.rng("membership", "points")
    curves = [present.scatter(table, labels, ("acc", "nls"), (MEANING["acc"], MEANING["nls"]), rng)]
    if settings.ablate:
        have = set(table.columns)
        usable = [row for row in ABLATION if set(row.columns) <= have]
        at = [s for s in (5,) if s in _subsets(table, labels, (0, 5))] or [0]
        missing = [
            (row.title, f"{' '.join(row.columns)}: needs {' '.join(sorted(set(row.columns) - have))}")
            for row in ABLATION
            if row not in usable
        ]
        title = "Ablation (KM: K-Means, RF: random forest), accuracy in per cent"
        ablation = _outcomes(context, usable, table, labels, at, settings)
        tables.append(present.accuracy_table(title, ablation, missing))
    return tables, curves
