"""How well the model reads new pages, of companies that it was trained on and of others.

Source: privacy-aware-docvqa, Tables 1 and 9: ACC and ANLS on RED, on its positive and on its negative part,
and the difference. The scores on non-members are the model's utility.
"""

from __future__ import annotations

import pandas as pd
from pfl_audit.attacks.memorization import present
from pfl_audit.attacks.memorization.scores import score_gap, score_mean

from pfl_audit.audit.attack import CheckSpec, QuestionContext
from pfl_audit.audit.engine import QueryEngine
from pfl_audit.audit.results import Check, Metric
from pfl_audit.documents.document import Membership
from pfl_audit.metrics.answers import accuracy, anls
from pfl_audit.models.protocol import Capability

SPEC = CheckSpec(
    "memorization.generalisation",
    "Reading of new pages: known companies against others",
    frozenset({Capability.ANSWER}),
    {
        "knows": "new pages of a company, none of which was trained on",
        "sees": "the model's answers to questions about them",
        "does": "tells from how well it reads them that it knows the company",
    },
)


def generalisation(context: QuestionContext) -> Check:
    """Ask every question of RED, as the membership attacks do: what was answered is not asked again."""
    metrics: list[Metric] = []
    finding = None
    models = {"target": context.target, "pre-trained": context.pretrained}
    for name, engine in models.items():
        if engine is None:
            continue
        pages = _pages(context, engine, name)
        if pages.empty or pages["member"].nunique() < 2:
            if name == "target":
                return SPEC.not_run("skipped", "new pages of members and of non-members are both needed")
            continue
        for score in ("acc", "anls"):
            rng = context.rng("generalisation", name, score)
            gap = score_gap(pages, score, rng)
            whole = score_mean(pages, score, rng)
            metrics.append(present.utility_metric(score.upper(), name, whole, len(pages)))
            metrics += present.gap_metrics(score.upper(), present.ALL_PAGES, name, gap, unit="questions")
            if (name, score) == ("target", "acc"):
                finding = present.generalisation_finding(gap, context.budget)
    return SPEC.ran(settings={"alpha": context.budget.leak}, metrics=metrics, finding=finding)


def _pages(context: QuestionContext, engine: QueryEngine, name: str) -> pd.DataFrame:
    """One row a question of a labelled provider."""
    labels = {Membership.MEMBER: True, Membership.NON_MEMBER: False}
    queries = [query for query in context.red.queries if context.red.label(query.document.provider) in labels]
    answers = engine.ask(queries, f"new pages ({name})")
    rows = [
        {
            "provider": query.document.provider,
            "member": labels[context.red.label(query.document.provider)],
            "acc": accuracy(answers[query].answer, query.answers),
            "anls": anls(answers[query].answer, query.answers),
        }
        for query in queries
        if query in answers
    ]
    return pd.DataFrame(rows, columns=["provider", "member", "acc", "anls"])
