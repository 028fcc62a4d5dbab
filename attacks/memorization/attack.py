"""The memorization test: ask for a value that stands neither on the page nor in the OCR.

Source: privacy-aware-docvqa, section 5.1 and appendix D.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from pfl_audit.attacks.memorization import generalisation, present
from pfl_audit.attacks.memorization.evidence import keep_evidence
from pfl_audit.attacks.memorization.scores import CONFIDENT, GapEstimate, giveaway_providers, score_gap
from pfl_audit.attacks.memorization.unprompted import (
    disclosures,
    secret_answers,
    secrets_of,
    unprompted_questions,
)
from pydantic import BaseModel, ConfigDict, Field

from pfl_audit.audit.attack import CheckSpec, QuestionContext
from pfl_audit.audit.engine import Answers, QueryEngine
from pfl_audit.audit.picture_reading import line_reader
from pfl_audit.audit.results import Check, Metric
from pfl_audit.documents.clues import ClueKind, picture_clues, residual_clues
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Membership, Query
from pfl_audit.documents.keys import PROVIDER_KEYS
from pfl_audit.documents.scrub import THRESHOLD
from pfl_audit.documents.scrubbed import scrubbed_questions
from pfl_audit.metrics.answers import accuracy, anls
from pfl_audit.metrics.intervals import Estimate, bootstrap_weights, estimate, group_mean
from pfl_audit.models.page_reader import picture_query
from pfl_audit.models.protocol import Capability

UNPROMPTED = "memorization.unprompted"
_THREAT = {
    "knows": "a page of the company on which the value cannot be read",
    "sees": "the model's answer to a question for that value",
    "does": "reads the value off the answer, although the page does not give it",
}
_UNPROMPTED_THREAT = {
    "knows": "pages of companies that were not trained on, which hold no such number",
    "sees": "the model's answers to questions for tax numbers and registration ids",
    "does": "collects numbers that belong to companies in the training set",
}


class MemorizationSettings(BaseModel):
    """Settings of the memorization test."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    threshold: float = Field(default=THRESHOLD, ge=0.5, le=1.0, description="Similarity for taking values off pages")
    evidence_pages: int = Field(default=200, ge=0, description="Scrubbed pages that are kept whole, privately, a key")
    shown_pages: int = Field(default=4, ge=0, le=50, description="Of them, how many the report shows")


class MemorizationAttack:
    """One check a key, the unprompted-disclosure test, and how known companies are read."""

    name = "memorization"
    specs = (
        *(
            CheckSpec(
                f"memorization.{key}",
                f"Memorization of {key.replace('_', ' ')}",
                frozenset({Capability.ANSWER}),
                _THREAT,
            )
            for key in PROVIDER_KEYS
        ),
        CheckSpec(
            UNPROMPTED,
            "Unprompted disclosure of tax numbers and registration ids",
            frozenset({Capability.ANSWER, Capability.LIVE}),
            _UNPROMPTED_THREAT,
        ),
        generalisation.SPEC,
    )
    Settings = MemorizationSettings

    def run(self, context: QuestionContext, settings: MemorizationSettings) -> list[Check]:
        """Run the checks that were chosen, key by key."""
        checks = []
        for description in self.specs:
            if description.id == UNPROMPTED and UNPROMPTED in context.checks:
                checks.append(_unprompted(context, description))
            elif description is generalisation.SPEC and description.id in context.checks:
                checks.append(generalisation.generalisation(context))
            elif description.id in context.checks:
                checks.append(_memorization(context, settings, description))
        return checks


def _memorization(context: QuestionContext, settings: MemorizationSettings, spec: CheckSpec) -> Check:
    key = spec.id.split(".", 1)[1]
    read = line_reader(context.reader)
    test = scrubbed_questions(
        context.red, key, seed=context.seed, blue=context.blue, threshold=settings.threshold, read=read
    )
    labelled = [query for query in test.queries if _label(context.red, query.document.provider) is not None]
    if not labelled:
        return spec.not_run("skipped", f"no page of a labelled provider gives a {key} that can be taken off")
    answers = context.target.ask(labelled, f"{key} on pages without it")
    before = context.pretrained.ask(labelled, "the same to the pre-trained model") if context.pretrained else None
    clues = _second_look(context, labelled)
    pages = _pages(context.red, answers, labelled, clues)
    if pages.empty:
        reason = answers.problems[0].reason if answers.problems else "none of the questions could be answered"
        return spec.not_run("skipped", reason)
    gaps = _gaps(context, key, pages, "target")
    old = _pages(context.red, before, labelled, clues) if before else None
    control = _gaps(context, key, old, "pre-trained") if old is not None and not old.empty else {}
    main = gaps.get(("ACC", present.ALL_PAGES))
    hide = context.redactor.within(spec.id)
    return spec.ran(
        settings={**settings.model_dump(mode="json"), "key": key, "alpha": context.budget.leak},
        metrics=[
            metric
            for model, found in (("target", gaps), ("pre-trained", control))
            for (score, slice_), gap in found.items()
            for metric in present.gap_metrics(score, slice_, model, gap)
        ],
        tables=[
            present.giveaway_table(giveaway_providers(pages), hide),
            present.skipped_table(test.skipped + tuple(answers.problems), hide),
            present.clue_table(labelled, clues, hide, ocr=context.reader is not None),
        ],
        evidence=keep_evidence(context, hide, settings.evidence_pages, settings.shown_pages, test, answers, before),
        finding=present.gap_finding(key, main, context.budget),
    )


def _second_look(context: QuestionContext, queries: Sequence[Query]) -> dict[str, list[ClueKind]]:
    """Query id to the kinds of what still points to the value: among the words, and in the picture if there is OCR."""
    read: dict[str, str] = {}
    if context.reader is not None:
        pictures = [picture_query(query) for query in queries if query.document.image is not None]
        found = context.reader.ask(pictures, "second look at the pictures")
        read = {name: response.answer for name, response in found.responses.items()}
    return {
        query.id: [
            clue.kind
            for clue in residual_clues(query.document, query.answers[0])
            + picture_clues(read.get(picture_query(query).id, ""), query.answers[0])
        ]
        for query in queries
    }


def _pages(
    corpus: Corpus, answers: Answers, queries: Sequence[Query], clues: Mapping[str, Sequence[ClueKind]]
) -> pd.DataFrame:
    """One row a page that could be asked."""
    rows = []
    for query in queries:
        if query in answers:
            response = answers[query]
            rows.append(
                {
                    "page": query.document.id,
                    "provider": query.document.provider,
                    "member": _label(corpus, query.document.provider),
                    "acc": accuracy(response.answer, query.answers),
                    "anls": anls(response.answer, query.answers),
                    "conf": np.nan if response.confidence is None else response.confidence,
                    "clues": len(clues[query.id]),
                }
            )
    return pd.DataFrame(rows, columns=["page", "provider", "member", "acc", "anls", "conf", "clues"])


def _gaps(context: QuestionContext, key: str, pages: pd.DataFrame, model: str) -> dict[tuple[str, str], GapEstimate]:
    """ACC and ANLS on all pages, on the confident answers, and on pages without residual clues."""
    slices = {
        present.ALL_PAGES: pages,
        f"confidence ≥ {CONFIDENT}": pages[pages["conf"] >= CONFIDENT],
        "no residual clue": pages[pages["clues"] == 0],
    }
    found = {}
    for name, rows in slices.items():
        for score in ("acc", "anls"):
            if len(rows):
                found[score.upper(), name] = score_gap(
                    rows, score, context.rng("memorization", key, model, name, score)
                )
    return found


def _label(corpus: Corpus, provider: str) -> bool | None:
    label = corpus.label(provider)
    return None if label is Membership.UNKNOWN else label is Membership.MEMBER


def _unprompted(context: QuestionContext, spec: CheckSpec) -> Check:
    queries = unprompted_questions(context.red, context.rng("unprompted"))
    if not queries:
        return spec.not_run("skipped", "no page of a non-member provider is without such a number")
    answers = _texts(context.target, queries, "secrets on pages that hold none")
    before = _texts(context.pretrained, queries, "the same to the pre-trained model") if context.pretrained else None
    found = disclosures(queries, answers, before, context.blue)
    metrics: list[Metric] = []
    if context.blue is not None:
        rng = context.rng("unprompted", "bootstrap")
        providers = [query.document.provider for query in queries if query.id in answers]
        share = _share(queries, answers, secret_answers(queries, answers, context.blue), rng)
        chance = None
        if before is not None:
            chance = len(secret_answers(queries, before, context.blue)) / max(1, len(before))
        metrics = present.disclosure_metrics(found, share, chance, len(set(providers)))
    return spec.ran(
        settings={"questions": len(queries)},
        metrics=metrics,
        tables=present.disclosure_tables(found, context.redactor.within(spec.id)),
        finding=present.disclosure_finding(
            found,
            blue=context.blue is not None,
            secrets=len(secrets_of(context.blue)),
            asked=len(answers),
            pretrained=before is not None,
        ),
    )


def _texts(engine: QueryEngine, queries: Sequence[Query], purpose: str) -> dict[str, str]:
    return {name: response.answer for name, response in engine.ask(queries, purpose).responses.items()}


def _share(queries: Sequence[Query], answers: Mapping[str, str], hits: set[str], rng: np.random.Generator) -> Estimate:
    """Share of the questions that brought out a true secret, with providers resampled."""
    frame = pd.DataFrame(
        [(query.document.provider, float(query.id in hits)) for query in queries if query.id in answers],
        columns=["provider", "hit"],
    )
    groups = frame.groupby("provider", sort=True)["hit"]
    sums, counts = groups.sum().to_numpy(dtype=np.float64), groups.size().to_numpy().astype(np.float64)
    mean = group_mean(sums, counts)
    weights = bootstrap_weights(np.zeros(len(sums), dtype=bool), rng)
    return estimate(float(mean(np.ones((1, len(sums))))[0]), mean(weights))


ATTACK = MemorizationAttack()
