"""The checks of provider membership inference, run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Final

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership import present
from pfl_audit.attacks.membership.basis import control_text, documents_alone, make_basis
from pfl_audit.attacks.membership.decision import decide_membership
from pfl_audit.attacks.membership.evaluation import Outcome, columns_used, evaluate, subset
from pfl_audit.attacks.membership.features import aggregate, memory_features, query_features, without_signs
from pfl_audit.attacks.membership.present import present_blind
from pfl_audit.attacks.membership.present_decision import access_table, by_access_roc, finding, metrics
from pfl_audit.attacks.membership.provider_attack import PROVIDER_ATTACKS
from pfl_audit.attacks.membership.question_scores import LARGEST_LOSS
from pfl_audit.attacks.membership.rows import (
    ABLATION,
    G4,
    MEANING,
    OUT,
    ROWS,
    SCORES,
    SCRUBBED_OUT,
    SCRUBBED_RATIO,
    TOKENS,
    AttackRow,
    every_row,
    take_losses,
)
from pfl_audit.attacks.membership.specs import BLIND, WHOLE, MembershipSettings, spec, whole_spec
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.failures import failure
from pfl_audit.core.results import Check, Curve, Metric, Table
from pfl_audit.core.settings import read_settings
from pfl_audit.documents.corpus import require_both_classes
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.scrubbing.questions import ScrubbedQuestions, scrubbed_questions
from pfl_audit.documents.scrubbing.scrub import scrub
from pfl_audit.errors import NotAuditableError
from pfl_audit.fitness.blind import Blind
from pfl_audit.metrics.arrays import Bools
from pfl_audit.models.protocol import DropoutModel, Response

NO_TOKENS: Final = "a model gives no losses of tokens, or cuts answers into other tokens than the pre-trained model"


def run_checks(context: QuestionContext, settings: MembershipSettings) -> list[Check]:
    """Ask the models once, let every attack decide on the same features, and judge the attacks together."""
    require_both_classes(context.red)
    return _Run(context, settings).checks()


class _Run:
    """The attacks that were chosen, on all providers of known membership.

    Attributes:
        rows: Attacks; AZK where none was chosen.
        tables: Features of the same providers, one row each, under ``target`` and, where there is one, ``control``.
        table: Features under the model under audit.
        labels: Membership of the rows, bool (n,).
        subsets: Values of s that leave providers enough.
        lost: Attacks of other packages that ended with an exception, as checks that did not run.
    """

    def __init__(self, context: QuestionContext, settings: MembershipSettings) -> None:
        self.context, self.settings, self.unit = context, settings, context.unit
        members = context.members
        self.corpus = context.red.where(lambda query: query.document.unit in members)
        chosen = [_bound(row, settings) for row in every_row() if f"membership.{row.id}" in context.checks]
        self.rows = chosen or [ROWS[0]]
        self.tables = self._tables()
        self.table = self.tables["target"]
        self.labels: Bools = np.array([members[unit] for unit in self.table.index])
        self.subsets = self._large_enough(settings.s)
        self.control_name = context.control_name or ""
        self.groups = [context.groups[unit] for unit in self.table.index]
        self.lost: dict[str, Check] = {}

    def checks(self) -> list[Check]:
        """The results of the chosen checks."""
        outcomes = self._outcomes(self.rows, self.tables["target"], self.subsets)
        decided = present.primary(next(iter(outcomes.values()))).s
        control = self._outcomes(self.rows, self.tables["control"], [decided]) if "control" in self.tables else {}
        outcomes, control = (
            {row: found[row] for row in found if row not in self.lost} for found in (outcomes, control)
        )
        blind = documents_alone(self.context, self.corpus, "membership")
        missing = [
            present.left_out(s, *self._sizes(s), self.unit) for s in sorted(set(self.settings.s) - set(self.subsets))
        ]
        checks = [
            self._part(row, outcomes[row.id], control.get(row.id, []), missing)
            for row in self.rows
            if f"membership.{row.id}" in self.context.checks and row.id in outcomes
        ]
        checks += self.lost.values()
        if WHOLE in self.context.checks:
            checks.append(self._whole(outcomes, control, blind))
        if BLIND in self.context.checks:
            checks.append(present_blind(blind, self.unit))
        return checks

    def _part(
        self, row: AttackRow, outcomes: Sequence[Outcome], control: Sequence[Outcome], missing: Sequence[Metric]
    ) -> Check:
        """One attack; what it means is said of all attacks together."""
        used = [*columns_used(row, self.table), *(column for column in row.columns if column not in row.features)]
        unused = [column for column in row.columns if column not in self.table]
        incomparable = {*used} <= {*TOKENS} and self.context.control is not None and not control
        return spec(row, self.unit).ran(
            settings={
                **self.settings.model_dump(mode="json"),
                "features": {column: MEANING[column] for column in used},
                **({"features without values": unused} if unused else {}),
                **({"without the control": NO_TOKENS} if incomparable else {}),
                "decided at s": present.primary(outcomes).s,
            },
            metrics=[metric for outcome in outcomes for metric in present.metrics(outcome, "target", self.unit)]
            + [*missing]
            + [metric for outcome in control for metric in present.metrics(outcome, self.control_name, self.unit)],
            curves=[present.roc(present.primary(outcomes)), present.accuracy_curve(outcomes, self.unit)],
        )

    def _whole(
        self, outcomes: Mapping[str, Sequence[Outcome]], control: Mapping[str, Sequence[Outcome]], blind: Blind
    ) -> Check:
        """The finding, and the tables that concern all attacks."""
        context = self.context
        main = {name: present.primary(found) for name, found in outcomes.items()}
        beside = {name: found[0] for name, found in control.items()}
        first = next(iter(main.values()))
        units = subset(self.table, self.labels, first.s)[0].index
        basis = make_basis(context, self.corpus, units, first, blind, context.control_name)
        decision = decide_membership(
            [*main.values()], beside, basis, context.budget, context.rng("membership", "permutation")
        )
        strongest = decision.strongest.outcome
        overview, curves = self._overview(outcomes)
        by_access = access_table(
            decision, beside, {name: table["acc"] for name, table in self.tables.items()}, self.labels, self.unit
        )
        return whole_spec(self.unit, strongest.row.access).ran(
            settings={"alpha": context.budget.leak, "classes drawn at random": context.classes_random},
            metrics=metrics(decision, self.control_name, self.unit),
            tables=[by_access, *overview],
            curves=[by_access_roc(decision, beside), *curves],
            finding=finding(decision, basis, control_text(self.control_name, self.unit)),
        )

    def _tables(self) -> dict[str, pd.DataFrame]:
        context = self.context
        tables = {"target": self._features(context.target, context.pretrained)}
        control = context.control or context.pretrained
        if control is not None:
            tables["control"] = self._features(control, context.pretrained if context.control is not None else None)
            both = tables["target"].index.intersection(tables["control"].index)
            tables = {name: table.loc[both] for name, table in tables.items()}
            tables["control"] = tables["control"].assign(queries=tables["target"]["queries"])
            if SCRUBBED_RATIO not in tables["target"]:  # what the target is not attacked by, the control is not either
                tables["control"] = tables["control"].drop(columns=[SCRUBBED_RATIO, "loglik_mem"], errors="ignore")
        return tables

    def _features(self, engine: QueryEngine, pretrained: QueryEngine | None) -> pd.DataFrame:
        """One row a provider, with the columns that the rows use."""
        wanted, queries = {column for row in self.rows for column in row.columns}, self.corpus.queries
        with_dropout = self.settings.losses == "dropout" and take_losses(self.rows)
        if with_dropout and not all(isinstance(one.model, DropoutModel) for one in (engine, pretrained) if one):
            raise NotAuditableError(
                "only a VT5 has losses with dropout, which the reference code uses",
                "Give --set membership.losses=evaluation",
            )
        answers = engine.ask(queries, "questions to the model")
        before = pretrained.ask(queries, "the same to the pre-trained model").responses if pretrained else None
        models = self.context.references if wanted & set(SCORES) else ()
        references = [
            one.ask(queries, f"the same to reference model {number} of {len(models)}").responses
            for number, one in enumerate(models, 1)
        ]
        another = engine is not self.context.control and wanted & {*OUT, *SCORES}
        control = self.context.control if another else None
        out = control.ask(queries, "the same to the control").responses if control else None
        memory = None
        if wanted & {*G4, SCRUBBED_RATIO, SCRUBBED_OUT}:
            memory = self._memory(engine, pretrained if SCRUBBED_RATIO in wanted else None, control)
        dropped = self._dropped(engine, pretrained) if with_dropout else None
        frame = query_features(
            queries, answers.responses, before, [*references, *([out] if references and out else [])], dropped, out
        )
        if frame.empty:
            reason = f": {answers.problems[0].reason}" if answers.problems else ""
            raise NotAuditableError(f"none of the questions could be answered{reason}", "See 'pfl-audit data check'")
        table = aggregate(frame, memory)
        return without_signs(table) if self.settings.differences == "absolute" else table

    def _dropped(self, engine: QueryEngine, pretrained: QueryEngine | None) -> dict[str, tuple[float, float]]:
        """Query id to the losses with dropout of a model and of the pre-trained one, NaN without one."""
        models = [engine, *([pretrained] if pretrained else [])]
        queries = self.corpus.queries
        first = {query: query.answers[:1] for query in queries}
        found = [one.candidates(first, "losses with dropout", dropout=True) for one in models]
        both = [query.id for query in queries if all(query.id in some for some in found)]
        losses = {name: [min(some[name][0].loss, LARGEST_LOSS) for some in found] for name in both}
        return {name: (some[0], some[1] if pretrained else float("nan")) for name, some in losses.items()}

    @cached_property
    def _scrubbed(self) -> ScrubbedQuestions:
        """The same for every model."""
        return scrubbed_questions(
            self.corpus, "provider_name", seed=self.context.seed, threshold=self.settings.threshold
        )

    def _memory(self, engine: QueryEngine, pretrained: QueryEngine | None, control: QueryEngine | None) -> pd.DataFrame:
        """The memorization test on the provider's name, also against other models, and what changes unasked."""
        corpus, threshold, test = self.corpus, self.settings.threshold, self._scrubbed
        known = engine.ask(test.queries, "provider names on pages without them")
        before = pretrained.ask(test.queries, "the same to the pre-trained model").responses if pretrained else None
        out = control.ask(test.queries, "the same to the control").responses if control else None
        silent = [_unasked(document, "before") for document in corpus.documents]
        said = engine.ask(silent, "pages without a question")
        pairs = [
            (query, _unasked(scrub(query.document, said[query].answer, threshold).document, "after"))
            for query in silent
            if query in said
        ]
        still = engine.ask([after for _, after in pairs], "the same without the answer")
        responses: Mapping[str, Response] = said.responses | still.responses
        return memory_features(test.queries, known.responses, pairs, responses, before, out)

    def _sizes(self, s: int) -> tuple[int, int]:
        """Number of members and of non-members with more than ``s`` questions."""
        kept = self.labels[self.table["queries"].to_numpy() > s]
        return int(kept.sum()), int((~kept).sum())

    def _large_enough(self, wanted: Sequence[int]) -> list[int]:
        """The values of s that leave at least four providers of each class."""
        kept = [s for s in sorted(set(wanted)) if min(self._sizes(s)) >= 4]
        if not kept:
            raise NotAuditableError(
                f"fewer than four member or non-member {self.unit.many} have questions enough",
                "Add documents to ask about, or lower --s",
            )
        return kept

    def _outcomes(
        self, rows: Sequence[AttackRow], table: pd.DataFrame, subsets: Sequence[int]
    ) -> dict[str, list[Outcome]]:
        """Every attack on every subset."""
        found: dict[str, list[Outcome]] = {}
        for row in rows:
            if table is not self.table and row.reference == "control":  # less itself it is no score
                continue
            if row.features and {*row.features} <= {*TOKENS} - {*table}:
                if table is self.table:
                    self.lost[row.id] = spec(row, self.unit).not_run("skipped", NO_TOKENS)
                continue
            try:
                found[row.id] = [
                    evaluate(
                        row,
                        table,
                        self.labels,
                        s,
                        seeds=range(self.context.seed, self.context.seed + self.settings.seeds),
                        settings=self.settings,
                        rng=self.context.rng("bootstrap", s),
                        groups=self.groups,
                    )
                    for s in subsets
                ]
            except Exception as error:  # whatever a stranger's attack raises; ours and the only one end the family
                if row.kind != "external" or len(rows) == 1:
                    raise
                self.lost[row.id] = spec(row, self.unit).not_run(*failure(error, row.id, self.context))
        if table is self.table and not found:
            raise NotAuditableError("none of the attacks has what it needs", "Leave these attacks out")
        return found

    def _overview(self, outcomes: Mapping[str, Sequence[Outcome]]) -> tuple[list[Table], list[Curve]]:
        """The paper's tables, and two features of the providers."""
        tables = [present.accuracy_table("Accuracy of all attacks, per cent", outcomes, self.unit)]
        axes = (MEANING["acc"], MEANING["nls"])
        curves = [present.scatter(self.table, self.labels, ("acc", "nls"), axes, self.unit)]
        if self.settings.ablate:
            have = set(self.table.columns)
            usable = [row for row in ABLATION if set(row.columns) <= have]
            missing = [
                (row.title, f"{' '.join(row.columns)}: needs {' '.join(sorted(set(row.columns) - have))}")
                for row in ABLATION
                if row not in usable
            ]
            title = "Ablation (KM: K-Means, RF: random forest), accuracy in per cent"
            ablation = self._outcomes(usable, self.table, [5] if 5 in self._large_enough((0, 5)) else [0])
            tables.append(present.accuracy_table(title, ablation, self.unit, missing))
        return tables, curves


def _bound(row: AttackRow, settings: MembershipSettings) -> AttackRow:
    """The row of an attack from another package with its function; any other row as it is.

    Raises:
        UsageError: Its settings are wrong.
    """
    attack = PROVIDER_ATTACKS.installed().get(row.id) if row.kind == "external" else None
    if attack is None:
        return row
    given = read_settings(attack.Settings, settings.provider_attacks.get(row.id, {}), row.id)
    return replace(row, scores=partial(attack.scores, settings=given))


def _unasked(document: Document, when: str) -> Query:
    # The first answer is the one that losses refer to; here no loss is used.
    return Query(f"{document.id}/unasked/{when}", document, "", ("",), "other")
