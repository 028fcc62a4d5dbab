"""The check of one key: ask about scrubbed pages, compare with a control, and test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pandas as pd

from pfl_audit.attacks.memorization import extraction, present
from pfl_audit.attacks.memorization.evidence import keep_evidence
from pfl_audit.attacks.memorization.exposure import draw_candidates, exposures
from pfl_audit.attacks.memorization.measures import memory
from pfl_audit.attacks.memorization.plain import access_of
from pfl_audit.attacks.memorization.scores import (
    CONFIDENT,
    GapEstimate,
    beside,
    giveaway_units,
    items_of,
    pages_table,
    score_gap,
    score_mean,
)
from pfl_audit.attacks.memorization.secrets import Texts
from pfl_audit.attacks.memorization.specs import MemorizationSettings, in_words
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import Answers, QueryEngine
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.metric import build_metric
from pfl_audit.core.results import Check, Metric
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.scrubbing.ocr_lines import OcrLine
from pfl_audit.documents.scrubbing.questions import ScrubbedQuestions, scrubbed_questions
from pfl_audit.documents.scrubbing.residual import ResidualKind, residual_identifiers, residual_identifiers_in_image
from pfl_audit.models.page_reader import lines_query, picture_lines, picture_query
from pfl_audit.models.protocol import Capability


def recall(
    context: QuestionContext, spec: CheckSpec, settings: MemorizationSettings, trained: Texts | None = None
) -> Check:
    """Run the check of one key.

    Args:
        spec: Specification of the check; its id ends in the key.
        trained: Training pages, where they are known: the check is then made by how many of them hold a value, too.
    """
    key = spec.id.split(".", 1)[1]
    test = scrubbed_pages(context, key, settings)
    members = context.members
    queries = [query for query in test.queries if query.document.unit in members]
    if not queries:
        return spec.not_run("skipped", f"no page of a labelled {context.unit.name} gives a {key} that can be taken off")
    clues = second_look(context, queries)
    answers, pages = _ask(context, key, queries, members, clues)
    target = answers["target"]
    if pages["target"].empty:
        problems = target.problems
        return spec.not_run("skipped", problems[0].reason if problems else "none of the questions could be answered")
    control = context.control_name
    both = beside(pages["target"], pages[control] if control else None)
    held = {value: trained.pages_with(value) for value in {query.answers[0] for query in queries}} if trained else {}
    if any(held.values()):  # a training corpus may be without its pages, or without this key
        both = both.assign(held=both["question"].map({query.id: held[query.answers[0]] for query in queries}))
    clean = both[both["clues"] == 0]
    found = memory(clean, context.budget, context.rng("memorization", key, "test"))
    gaps = {name: _gaps(context, key, one, name) for name, one in pages.items() if not one.empty}
    scores = {score: gap for (score, slice_), gap in gaps["target"].items() if slice_ == present.CLEAN_PAGES}
    hide = context.redactor.within(spec.id)
    worded = in_words(spec, context.unit)
    if worded.review is not None:
        access = access_of(found, scores.get("ACC"))
        worded = replace(worded, review=replace(worded.review, access=access))
    return worded.ran(
        settings={**settings.model_dump(mode="json"), "key": key, "alpha": context.budget.leak},
        metrics=[
            *(
                metric
                for model, of in gaps.items()
                for (score, slice_), gap in of.items()
                for metric in present.gap_metrics(score, slice_, model, gap, context.unit)
            ),
            *present.memory_metrics(found, control or "", context.unit, items_of(clean)),
            *_extraction(context, key, queries, both, control),
        ],
        tables=[
            present.giveaway_table(giveaway_units(pages["target"]), hide, context.unit),
            present.skipped_table(test.skipped + tuple(target.problems), hide),
            present.clue_table(queries, clues, hide, ocr=context.reader is not None),
            *([present.repetition_table(found, context.unit)] if found.repeated else []),
        ],
        evidence=keep_evidence(
            context, hide, settings.evidence_pages, settings.shown_pages, test, target, answers.get("pre-trained")
        ),
        finding=present.memory_finding(key, found, scores, control, context.unit),
    )


def _ask(
    context: QuestionContext,
    key: str,
    queries: Sequence[Query],
    members: Mapping[str, bool],
    clues: Mapping[str, Sequence[ResidualKind]],
) -> tuple[dict[str, Answers], dict[str, pd.DataFrame]]:
    """Ask every model about every page, and the target and its control how likely other companies' values are.

    Returns:
        Model to its answers, and to its scores, one row a page (``scores.pages_table``).
    """
    counts = {name: len(kinds) for name, kinds in clues.items()}
    with_clue = {name for name, count in counts.items() if count}
    drawn = draw_candidates(queries, with_clue, context.rng("memorization", key, "exposure"))
    answers, pages = {}, {}
    for name, engine in context.models.items():
        answers[name] = engine.ask(queries, f"{key} on pages without it ({name})")
        ranks = {}
        if engine.compares and name in ("target", context.control_name):
            ranks = exposures(drawn, engine.candidates(drawn, f"{key} against those of others ({name})"))
        pages[name] = pages_table(queries, members, answers[name].responses, counts, ranks)
    return answers, pages


def second_look(context: QuestionContext, queries: Sequence[Query]) -> dict[str, list[ResidualKind]]:
    """Query id to the kinds of what still points to the value: among the words, and in the picture if there is OCR."""
    read: dict[str, str] = {}
    if context.reader is not None:
        pictures = [picture_query(query) for query in queries if query.document.image is not None]
        read = context.reader.ask(pictures, "second look at the pictures").texts
    return {
        query.id: [
            clue.kind
            for clue in residual_identifiers(query.document, query.answers[0])
            + residual_identifiers_in_image(read.get(picture_query(query).id, ""), query.answers[0])
        ]
        for query in queries
    }


def _gaps(context: QuestionContext, key: str, pages: pd.DataFrame, model: str) -> dict[tuple[str, str], GapEstimate]:
    """ACC and ANLS on all pages, on the confident answers, and on pages without residual clues."""
    slices = {
        present.ALL_PAGES: pages,
        f"confidence ≥ {CONFIDENT}": pages[pages["conf"] >= CONFIDENT],
        present.CLEAN_PAGES: pages[pages["clues"] == 0],
    }
    return {
        (score.upper(), name): score_gap(rows, score, context.rng("memorization", key, model, name, score))
        for name, rows in slices.items()
        for score in ("acc", "anls")
        if len(rows)
    }


def _extraction(
    context: QuestionContext, key: str, queries: Sequence[Query], pages: pd.DataFrame, control: str | None
) -> list[Metric]:
    """Shares of the pages without residual clues on which the value is extractable, and what is left of it then."""
    if control is None:
        return []
    rng = context.rng("memorization", key, "extraction")
    clean = pages[pages["clues"] == 0]
    about: present.Slice = {"pages": present.CLEAN_PAGES, "model": f"target, not {control}"}
    metrics = []
    for name, rows in (("members", clean[clean["member"]]), ("non-members", clean[~clean["member"].astype(bool)])):
        if (found := extraction.shares(rows, rng)) is not None:
            simple: present.Slice = {"pages": present.CLEAN_PAGES, "model": f"target and {control}"}
            extractable, simplicity, items = found
            shares = (("extractable", extractable, about), ("extractable simplicity", simplicity, simple))
            metrics += [
                present.share_metric(f"{kind}, {name}", share, items, whose, context.unit)
                for kind, share, whose in shares
            ]
    target, other = context.target, context.models[control]
    if {Capability.LIVE} <= target.capabilities & other.capabilities:
        again = extraction.paraphrases(queries, extraction.extracted(clean))
        if again:
            rows = extraction.kept(again, target.ask(again, f"{key} in other words").texts)
            value = score_mean(rows, "kept", rng) if len(rows) else None
            metrics.append(
                present.share_metric("extractable in other words", value, items_of(rows), about, context.unit)
            )
        blank = extraction.blank_questions(queries)
        said, before = (_blank(engine, blank, f"{key} without a page") for engine in (target, other))
        metrics.append(
            build_metric(
                "values of members without a page, disclosed",
                float(len(extraction.blank_hits(queries, said, before, context.members))),
                format="integer",
                n=len(blank),
                unit="questions",
                about=about,
            )
        )
    return metrics


def _blank(engine: QueryEngine, questions: Mapping[str, Query], purpose: str) -> dict[str, str]:
    answers = engine.ask(list(questions.values()), purpose).texts
    return {wording: answers[query.id] for wording, query in questions.items() if query.id in answers}


def scrubbed_pages(context: QuestionContext, key: str, settings: MemorizationSettings) -> ScrubbedQuestions:
    """Questions for the values of a key, about pages from which these were scrubbed; by OCR too where there is one."""
    read = partial(_ocr_lines, context.reader) if context.reader is not None else None
    return scrubbed_questions(
        context.red, key, seed=context.seed, blue=context.blue, threshold=settings.threshold, read=read
    )


def _ocr_lines(reader: QueryEngine, documents: Sequence[Document]) -> Mapping[str, Sequence[OcrLine]]:
    """Page to its lines by an OCR engine; answers are kept in the store, and pages that cannot be read are left out."""
    queries = {document.id: lines_query(document) for document in documents}
    found = reader.ask(list(queries.values()), "first look at the pictures")
    return {page: picture_lines(found[query].answer) for page, query in queries.items() if query in found}
