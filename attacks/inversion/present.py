"""Metrics, tables, evidence and findings of gradient inversion."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Final, TypedDict

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pfl_audit.attacks.inversion.closed_form import Solved
from pfl_audit.attacks.inversion.context import Case, GradientContext, bounds_of
from pfl_audit.attacks.inversion.decision import decide, half
from pfl_audit.attacks.inversion.present_decision import (
    NOT_SHOWN,
    NOTHING,
    REMEDIES,
    against,
    beside,
    closed_finding,
    counted,
)
from pfl_audit.attacks.inversion.question_answer import Asked
from pfl_audit.attacks.inversion.scoring import FEWEST_DOCUMENTS, Scored, Summary, summarise
from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.attacks.inversion.word_scores import FieldReading
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.drawing import CAPTION, COVERED, covered, drawn_page
from pfl_audit.core.fields import Cell
from pfl_audit.core.frequencies import hundredths, out_of
from pfl_audit.core.metric import bootstrap_over, build_metric
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check, Evidence, Finding, Format, Level, Metric, SliceValue, Table
from pfl_audit.core.verdict import Budget, level_of
from pfl_audit.metrics.intervals import (
    Estimate,
    all_or_nothing,
    bootstrap_weights,
    estimate,
    resampled_mean,
)

EXACT = "words exact"
_GO_ON = "A search goes on from what came back here: --method lbfgs."
_WRITTEN = "that a client wrote into a form"
_PICTURES: Final[dict[str, tuple[str, Format]]] = {
    "psnr": ("PSNR", "decibel"),
    "gain": ("PSNR over that of the empty form", "decibel"),
    "fft2d": ("cosine distance in Fourier space", "decimal"),
    "mse": ("MSE", "integer"),
}
_PLACES = {"fields": "private fields", "whole": "page"}


class Presenter:
    """Builds the checks of one audit.

    Args:
        engine: Name and version of the reading engine.
    """

    def __init__(self, context: GradientContext, settings: InversionSettings, engine: str) -> None:
        self._context, self._settings, self._engine = context, settings, engine
        self._batch = max((case.seen.batch for case in context.cases), default=1)

    def search(self, spec: CheckSpec, scored: Sequence[Scored]) -> Check:
        """An attack by optimisation."""
        found = summarise(scored, self._context.rng("inversion", "bootstrap"))
        return spec.ran(
            settings=self._said(),
            metrics=self._metrics(found),
            tables=[self._documents(scored)],
            evidence=self._evidence(spec, scored),
            finding=self._words_finding(found),
        )

    def text(self, spec: CheckSpec, asked: Sequence[Asked]) -> Check:
        """Question and answer."""
        right, count = sum(one.exact for one in asked), len(asked)
        tokens = self._share([one.right for one in asked], [one.tokens for one in asked])
        hide, quiet = self._context.redactor, [one.quiet for one in asked]
        found = decide([one.counts for one in asked], self._context.budget, quiet)
        rows: list[list[Cell]] = [
            [one.name, hide.value(one.question, "question"), hide.value(one.answer, "answer"),
             hide.part(one.right, one.tokens), hide.part(one.sure, one.tokens), one.how,
             "; ".join(map(str, one.limits)) or None]
            for one in asked
        ]  # fmt: skip
        text = (
            f"Of {count} {_plural(count, 'query', 'queries')}, {right} came back token by token, question and answer, "
            f"from the model and the gradient alone; of all tokens {percent(tokens.value)}. "
            f"{beside(found, 'answers', quiet)}"
        )
        return spec.ran(
            metrics=[
                counted("queries exact", right, count, "documents", chance=0.0),
                _share_metric("tokens exact", tokens, count),
                *against(found, quiet),
                *_misfit([one.misfit for one in asked]),
            ],
            tables=[
                Table(
                    title="What came back",
                    columns=["document", "question", "answer", "tokens right", "said to be sure", "by", "limits"],
                    rows=rows,
                    note=None if hide.reveal else "Question and answer are masked.",
                )
            ],
            finding=closed_finding(
                found, text, "tokens of answers", [one.limits for one in asked], bounds=bounds_of(self._context)
            ),
        )

    def analytic(self, spec: CheckSpec, solved: Sequence[Solved]) -> Check:
        """The closed form of the LayoutLM family."""
        scored = [one.scored for one in solved if one.scored is not None]
        counts = [one.tokens for one in solved]
        tokens = self._share([one.right for one in solved], counts)
        boxes = self._share([one.boxes for one in solved], counts)
        quiet = [one.quiet for one in solved]
        decision = decide([one.counts for one in solved], half(self._context.budget), quiet)
        metrics = [
            _share_metric("tokens exact", tokens, len(solved)),
            _share_metric("boxes exact", boxes, len(solved)),
            *against(decision, quiet),
            *_misfit([one.misfit for one in solved]),
        ]
        total = sum(counts)
        text = (
            f"Of {total} tokens of {len(solved)} {_plural(len(solved), 'page', 'pages')}, {percent(tokens.value)} "
            f"came back in their places and {percent(boxes.value)} with their boxes, in closed form "
            f"({max(one.seconds for one in solved):.1f} s a page at most). {beside(decision, 'private fields', quiet)}"
        )
        level: Level = "unresolved"
        by_words: _ByWords | None = None
        evidence: list[Evidence] = []
        if scored:
            found = summarise(scored, self._context.rng("inversion", "bootstrap"))
            metrics += self._metrics(found)
            psnr = found.pictures["psnr", "whole"].value
            text += f" The page came back at {psnr:.1f} dB, {percent(found.exact.value)} of its private words exact."
            level, by_words = self._words_level(found, half(self._context.budget)), _by_words(found)
            evidence = self._evidence(spec, scored)
        limits = [one.limits for one in solved]
        finding = closed_finding(decision, text, "tokens of private fields", limits, level, bounds_of(self._context))
        if by_words is not None and level in ("leak", "weak") and (decision is None or decision.level == "unresolved"):
            finding = finding.model_copy(update={**by_words})
        hide = self._context.redactor
        rows: list[list[Cell]] = [
            [one.name, *(hide.part(found, one.tokens) for found in (one.right, one.boxes, one.sure)),
             round(one.scored.whole.psnr, 1) if one.scored else None, one.noise or None,
             "; ".join(map(str, one.limits)) or None]
            for one in solved
        ]  # fmt: skip
        more = any(one.limits and one.goes_on for one in solved)
        columns = ["document", "tokens right", "boxes right", "said to be sure", "PSNR (dB)", "noise found", "limits"]
        return spec.ran(
            settings={"ocr": self._engine},
            metrics=metrics,
            tables=[Table(title="By document", columns=columns, rows=rows, note=_GO_ON if more else None)],
            evidence=evidence,
            finding=finding,
        )

    def _words_finding(self, found: Summary) -> Finding:
        level = self._words_level(found, self._context.budget)
        psnr = found.pictures["psnr", "fields"].value
        text = (
            f"Of {found.words} private words of {found.documents} {_plural(found.documents, 'page', 'pages')}, "
            f"{percent(found.exact.value)} are read exactly in what came back (values drawn at random: "
            f"{percent(found.guessed)}; on the original pages the same reader gets {percent(found.original.value)}), "
            f"at {psnr:.1f} dB inside the private fields ({found.pictures['gain', 'fields'].value:+.1f} dB over the "
            "empty form)."
        )
        if not found.original.value > 0:
            text += " The reader cannot read the original pages, so that words show nothing."
        return Finding(
            level=level,
            text=text,
            remedy=" ".join(REMEDIES),
            remedies=REMEDIES if level in ("leak", "weak") else [],
            plain=_plain(found) if level in ("leak", "weak") else _not_shown(found),
            **_by_words(found),
        )

    def _words_level(self, found: Summary, budget: Budget) -> Level:
        """Level by the words that are read, against values drawn at random; a search that fails shows nothing."""
        enough = found.words > 0 and found.original.value > 0 and found.units > 1
        return level_of([], [found.exact.above(found.guessed)], budget, enough=enough, resolved=False)

    def _metrics(self, found: Summary) -> list[Metric]:
        fields: dict[str, SliceValue] = {"place": _PLACES["fields"]}
        shares = (
            (EXACT, found.exact, found.guessed),
            ("words exact, of those readable on the original", found.relative, None),
            ("words exact on the original page", found.original, None),
        )
        metrics = [
            _share_metric(name, value, found.units, unit=found.unit, chance=chance, about=fields)
            for name, value, chance in shares
        ]
        over = bootstrap_over(found.unit)
        ratio = build_metric("fuzz ratio", found.ratio, format="decimal", n=found.units, unit=found.unit, method=over,
                             about=fields, missing=NOTHING)  # fmt: skip
        metrics.insert(2, ratio)
        over = bootstrap_over("documents")
        for (name, place), value in found.pictures.items():
            title, form = _PICTURES[name]
            metrics.append(
                build_metric(title, value, format=form, n=found.documents, unit="documents", method=over,
                             about={"place": _PLACES[place]}, missing=NOTHING)
            )  # fmt: skip
        return metrics

    def _documents(self, scored: Sequence[Scored]) -> Table:
        hide = self._context.redactor
        rows: list[list[Cell]] = [
            [one.name, *_words(hide, one.read),
             round(float(np.mean([field.ratio for field in one.read])), 3) if one.read else None,
             round(one.fields.psnr, 2), round(one.whole.psnr, 2), one.steps,
             None if one.objective is None else float(f"{one.objective:.3g}")]
            for one in scored
        ]  # fmt: skip
        return Table(
            title="By document",
            columns=["document", EXACT, "words", "fuzz ratio", "PSNR in the fields (dB)", "PSNR of the page (dB)",
                     "gradients taken", "objective left"],
            rows=rows,
        )  # fmt: skip

    def _evidence(self, spec: CheckSpec, scored: Sequence[Scored]) -> list[Evidence]:
        cases = {case.seen.name: case for case in self._context.cases}
        hide, method = self._context.redactor, spec.id.split(".")[1]
        shown = []
        for one in scored[:SHOWN]:
            facts = {"document": one.name} | {field.field: _reading(hide, field) for field in one.read}
            shown.append(show(self._context, method, cases[one.name], one.page, facts))
        return shown

    def _share(self, parts: Sequence[int], of: Sequence[int]) -> Estimate:
        """A share over the tokens of documents, which are resampled as a whole."""
        weights = bootstrap_weights(np.zeros(len(of), dtype=bool), self._context.rng("inversion", "tokens"))
        found = resampled_mean(np.array(parts, dtype=float), np.array(of, dtype=float), weights)
        if len(of) < FEWEST_DOCUMENTS:
            return estimate(found.value, np.empty(0))
        return all_or_nothing(found, len(of))

    def _said(self) -> dict[str, object]:
        return {**self._settings.model_dump(exclude_none=True), "batch": self._batch, "ocr": self._engine}


def _words(hide: Redactor, read: Sequence[FieldReading]) -> tuple[int | str, int | str]:
    """Words that are read exactly, and words that are written."""
    exact, words = sum(field.exact for field in read), sum(field.words for field in read)
    return exact if hide.reveal else hide.part(exact, words), hide.count(words)


def _reading(hide: Redactor, field: FieldReading) -> str:
    """What was written and what is read; masked, how much of it is the same."""
    if hide.reveal:
        return f"written {hide.value(field.truth)}, read {hide.value(field.read) or 'nothing'}"
    return f"written {hide.value(field.truth)}, read {hide.part(field.exact, field.words)} of its words"


def _share_metric(
    name: str,
    found: Estimate,
    n: int,
    *,
    unit: str = "documents",
    chance: float | None = None,
    about: dict[str, SliceValue] | None = None,
) -> Metric:
    method = bootstrap_over(unit, exact=True)
    return build_metric(
        name, found, format="percent", n=n, unit=unit, method=method, chance=chance, about=about, missing=NOTHING
    )


def _misfit(found: Sequence[float | None]) -> list[Metric]:
    """How far updates are from being ones of the model, at most."""
    known = [value for value in found if value is not None]
    if not known:
        return []
    return [
        build_metric(
            "misfit of update and weights", max(known), format="decimal", n=len(known), unit="documents", chance=1.0
        )
    ]


def percent(value: float) -> str:
    """A share in per cent, or none."""
    return f"{100 * value:.1f} %" if np.isfinite(value) else "none"


def _plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


SHOWN = 3
_GAP = 8
_SCALE = 2
_PAPER = 225


def show(context: GradientContext, method: str, case: Case, page: NDArray[np.uint8], facts: dict[str, str]) -> Evidence:
    """Keep the pages whole in the private folder, and make a picture for the report.

    A masked picture holds the empty form alone, and that only where it is public: a form of the user's own may carry
    a letterhead.

    Args:
        context: Context of the audit.
        method: Short name, for the file.
        case: With its truth.
        page: uint8 (height, width, 3), what came back.
        facts: Beside the picture.
    """
    template = case.seen.template
    picture = _side_by_side(template.pixels, case.truths[0].page, page)
    public, fields = context.public_form, [field.box for field in template.fields]
    masked = covered(_side_by_side(template.pixels), fields) if public else drawn_page()
    name = f"inversion-{method}-{case.seen.stem}"
    context.evidence.keep_page(name, picture)
    path = context.evidence.show(name, picture, masked)
    if context.redactor.reveal:
        return Evidence(title="Template, private page, and what came back", facts={**facts}, picture=path)
    return Evidence(title="What came back", facts={**facts, "picture": COVERED if public else CAPTION}, picture=path)


def _side_by_side(*panels: NDArray[np.uint8]) -> Image.Image:
    """One picture, enlarged."""
    height, width = panels[0].shape[:2]
    sheet = np.full((height, len(panels) * (width + _GAP) - _GAP, 3), _PAPER, dtype=np.uint8)
    for number, panel in enumerate(panels):
        left = number * (width + _GAP)
        sheet[:, left : left + width] = panel
    picture = Image.fromarray(sheet)
    scale = max(1, min(_SCALE, 1800 // picture.width))
    return picture.resize((picture.width * scale, height * scale), Image.Resampling.NEAREST)


class _ByWords(TypedDict):
    success: float | None
    false_alarms: float | None
    metric: str
    slice: dict[str, SliceValue]


def _by_words(found: Summary) -> _ByWords:
    """The number of a finding by the words that are read."""
    share = found.exact.value
    return {
        "success": share if isfinite(share) else None,
        "false_alarms": found.guessed if isfinite(found.guessed) else None,
        "metric": EXACT,
        "slice": {"place": _PLACES["fields"]},
    }


def _plain(found: Summary) -> str:
    """How much whoever receives one update reads of the client's page."""
    cases, came = out_of(found.exact.value, found.words, f"words {_WRITTEN}", f"word {_WRITTEN}")
    return (
        f"{cases[:1].upper()}{cases[1:]}, whoever receives one client's update recovers {came} exactly; guessing gives "
        f"{hundredths(found.guessed)} of 100."
    )


def _not_shown(found: Summary) -> str:
    """The same of an unresolved finding."""
    if found.words and not found.original.value > 0:
        return "The reader reads no word of the original pages, so that nothing can be said of what came back."
    if not found.exact.value > found.guessed:
        return NOT_SHOWN
    return f"{_plain(found)} That is too little to tell it from guessing, and does not show that nothing can come back."
