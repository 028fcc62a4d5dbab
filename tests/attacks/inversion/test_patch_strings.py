"""Strings of private fields by the span of patches: what is read is there, and nothing is read of noise."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.decision import decide
from pfl_audit.attacks.inversion.specs import STRINGS
from pfl_audit.attacks.inversion.strings import audit, recovery
from pfl_audit.attacks.inversion.strings.audit import FieldStrings, compare
from pfl_audit.attacks.inversion.strings.choice import choose
from pfl_audit.attacks.inversion.strings.field_pixels import FieldPixels, Vectors
from pfl_audit.attacks.inversion.strings.line_search import Judge, Line, begun
from pfl_audit.attacks.inversion.strings.nearness import Nearness
from pfl_audit.attacks.inversion.strings.patch_span import PatchSpan, span_of
from pfl_audit.attacks.inversion.strings.patches import patch_input
from pfl_audit.attacks.inversion.strings.present import strings_check
from pfl_audit.attacks.inversion.strings.recovery import Reading, Strings, public_patches, read_strings
from pfl_audit.attacks.inversion.strings.typeset import Typeset, typesets
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.models.donut.small import SmallSize, new_donut, save_donut
from pfl_audit.models.open import open_gradient_model
from pfl_audit.progress import Silent
from tests.attacks.inversion import updates
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.room import BUDGET, Room
from tests.attacks.inversion.template.drawn import form as drawn_form
from tests.oracles.patch_span import least_outside

FIXTURES = Path(__file__).parents[3] / "fixtures"
FORM = open_templates(FIXTURES / "templates")[0]


@pytest.fixture(scope="module")
def room() -> Room:
    return Room(open_gradient_model(str(FIXTURES / "donut"), "cpu"), (FORM,))


@pytest.fixture(scope="module")
def case(room: Room) -> Case:
    return with_values(room, room.case(0))


def with_values(room: Room, case: Case) -> Case:
    pages = [(at, truth.question) for at, truth in enumerate(case.truths)]
    return replace(case, drawn=lambda number: room.clients.values(pages, number))


@pytest.fixture(autouse=True)
def one_font(monkeypatch: pytest.MonkeyPatch) -> None:
    """The form's font alone, in the size that clients of the embedded forms write in: a third of the search."""

    def few(height: int, families: Sequence[str] = ("DejaVuSerif",), sizes: Sequence[int] = (11,)) -> list[Typeset]:
        return typesets(height, families, sizes)

    monkeypatch.setattr(recovery, "typesets", few)


@pytest.fixture(scope="module")
def vectors(room: Room) -> Vectors:
    return Vectors(patch_input(room.model), True, True)


@pytest.fixture(scope="module")
def span(vectors: Vectors, case: Case) -> PatchSpan:
    weight, bias = (case.seen.gradient[name].double().numpy() for name in (vectors.given.weight, vectors.given.bias))
    rows = vectors.rows(weight, bias)
    return span_of(rows, vectors.errors(weight, rows, 2.0**-22), public_patches(vectors, case.seen.template))


def line_of(field: FieldPixels, typeset: Typeset, text: str, gap: int = 0) -> Line:
    line = begun(field, typeset)
    for number, word in enumerate(text.split()):
        line = line.with_gap(gap) if number else line
        for letter in word:
            line = line.with_letter(letter, field.window)
    return line


def read(room: Room, case: Case, gradient: Mapping[str, Tensor]) -> Strings:
    """Strings of an update, without what ``observation_key`` and ``scaled`` lack of it: stated steps and dropout."""
    own = case.seen
    seen: Any = SimpleNamespace(template=own.template, gradient=gradient, batch=own.batch, scaled=own.scaled)
    return read_strings(room.model, seen, np.random.default_rng(0), Silent())


def scored(case: Case, found: Strings) -> FieldStrings:
    return compare(case, found, Strings((), 0, 0, ()))


def test_pixels_reach_the_projection_from_minus_one_to_one(vectors: Vectors) -> None:
    assert vectors.given.side == 16
    assert vectors.given.black.tolist() == [-1, -1, -1]
    assert vectors.given.white.tolist() == [1, 1, 1]


def test_gradient_is_a_sum_of_the_vectors_of_patches(room: Room, case: Case, vectors: Vectors) -> None:
    weight, bias = (case.seen.gradient[name].double().numpy() for name in (vectors.given.weight, vectors.given.bias))
    rows = vectors.rows(weight, bias)
    patches = vectors.of(case.truths[0].page / 255).reshape(-1, rows.shape[1])
    sums, *_ = np.linalg.lstsq(patches.T, rows.T, rcond=None)
    assert np.linalg.norm(patches.T @ sums - rows.T) < 1e-5 * np.linalg.norm(rows)


@pytest.mark.parametrize("kind", ["layoutlmv3", "vt5"])
def test_patches_of_other_families_are_summed_likewise(kind: str, tmp_path: Path) -> None:
    folder = save_reader(tmp_path, "v3")[0] if kind == "layoutlmv3" else FIXTURES / "vt5-finetuned"
    other = Room(open_gradient_model(str(folder), "cpu"), (drawn_form(),))
    case, own = other.case(0), Vectors(patch_input(other.model), True, True)
    weight, bias = (case.seen.gradient[name].double().numpy() for name in (own.given.weight, own.given.bias))
    rows = own.rows(weight, bias)
    patches = own.of(case.truths[0].page / 255).reshape(-1, rows.shape[1])
    sums, *_ = np.linalg.lstsq(patches.T, rows.T, rcond=None)
    assert np.linalg.norm(patches.T @ sums - rows.T) < 1e-5 * np.linalg.norm(rows)


@pytest.mark.parametrize("known", [0, 3, 9, 16])
def test_test_of_unknown_pixels_is_the_least_squares_distance(span: PatchSpan, known: int) -> None:
    rng = np.random.default_rng(known)
    unknown = np.zeros((16, 16), dtype=bool)
    unknown[4:10, known:] = True
    mask = np.append(unknown.ravel(), False)
    patch = np.append(rng.normal(size=256), 1.0)
    test = span.test(mask)
    assert test is not None
    assert np.linalg.norm(test.outside @ np.where(mask, 0.0, patch)) == pytest.approx(least_outside(span, patch, mask))


def test_a_patch_with_too_many_unknown_pixels_is_not_tested(span: PatchSpan) -> None:
    assert span.test(np.append(np.ones(256, dtype=bool), False)) is None


def test_a_line_is_drawn_as_a_client_draws_it(room: Room, case: Case, vectors: Vectors) -> None:
    place = FieldPixels.of(vectors, case.seen.template, case.seen.template.fields[0])
    assert place is not None
    page = case.truths[0].page
    left, top, *_ = case.seen.template.window(case.seen.template.fields[0])
    line = line_of(place, Typeset("DejaVuSerif", 11, 2, 13), case.truths[0].values["field-1"])  # type: ignore[index]
    drawn = place.exact(np.stack([line.cover] * 40), np.arange(10, 50))
    x, y = left // 16 * 16, top // 16 * 16
    height, width = place.form.shape[:2]
    truth = vectors.of(page[y : y + height, x : x + width] / 255)
    assert min(np.abs(each - truth).max() for each in drawn) < 1e-12


def test_a_linear_test_is_the_test_of_the_drawn_vector(case: Case, vectors: Vectors, span: PatchSpan) -> None:
    place = FieldPixels.of(vectors, case.seen.template, case.seen.template.fields[0])
    assert place is not None
    typeset = Typeset("DejaVuSerif", 11, 2, 13)
    line = line_of(place, typeset, "935-555-6544")
    (judged,) = Judge(span, place)([line], ended=True)
    test = span.test(np.zeros(257, dtype=bool))
    assert test is not None
    blur = 4 / (12 * 255**2)
    worst = 0.0
    for row, column in np.ndindex(2, 7):
        inks = place.exact(np.stack([line.cover] * 103), np.arange(103))[:, row, column]
        left = np.square(inks @ test.outside.T).sum(axis=1)
        turned = np.square(inks @ test.turned.T).sum(axis=1)
        least = int(left.argmin())
        worst = max(worst, float(np.sqrt(left[least] / (len(test.outside) * (turned[least] + blur)))))
    assert judged.worst == pytest.approx(worst, rel=0.1)
    assert judged.worst > 3


def test_beginnings_and_repetitions_of_a_line_are_left_out(case: Case, vectors: Vectors) -> None:
    form = case.seen.template
    place = FieldPixels.of(vectors, form, form.fields[0])
    assert place is not None
    typeset = Typeset("DejaVuSerif", 11, 2, 13)
    lines = [line_of(place, typeset, text) for text in ("935-555-6543", "935-555-654")]
    found = choose({"field-1": (place, [*lines, lines[0].with_gap(9).with_letter("3", place.window)])},
                   public_patches(vectors, form))  # fmt: skip
    assert [(one.line.text, one.alone) for one in found] == [("935-555-6543", True)]


def test_a_beginning_that_another_line_goes_on_from_is_no_reading(case: Case, vectors: Vectors) -> None:
    form = case.seen.template
    place = FieldPixels.of(vectors, form, form.fields[0])
    assert place is not None
    whole, start, other = (
        line_of(place, Typeset("DejaVuSerif", 11, 2, 13), text) for text in ("05/08/1991", "05/08/", "27/08/1991")
    )
    found = choose({"field-1": (place, [whole, start]), "field-2": (place, [other])}, public_patches(vectors, form))
    assert [(one.line.text, one.alone) for one in found] == [("05/08/", False), ("27/08/1991", True)]


@pytest.mark.slow
def test_strings_of_a_gradient_are_read(room: Room, case: Case) -> None:
    found = scored(case, read(room, case, case.seen.gradient))
    assert (found.right, found.named, found.wanted) == (4, 4, 4)
    decision = decide([found.counts], BUDGET)
    assert decision is not None
    assert decision.level == "leak"
    assert decision.chance < 0.01


@pytest.mark.slow
def test_strings_survive_half_precision(room: Room, case: Case) -> None:
    found = scored(case, read(room, case, updates.rounded(case.seen.gradient, torch.bfloat16)))
    assert found.right >= 3
    assert found.named == found.right


@pytest.mark.slow
def test_the_gradient_of_another_filling_is_not_read_as_this_page(room: Room, case: Case) -> None:
    found = scored(case, read(room, case, room.case(1).seen.gradient))
    decision = decide([found.counts], BUDGET)
    assert found.right == 0
    assert decision is not None
    assert decision.level == "unresolved"


def test_of_noise_nothing_is_read(room: Room, case: Case) -> None:
    given = {name: torch.randn(part.shape, generator=torch.Generator().manual_seed(0))
             for name, part in case.seen.gradient.items()}  # fmt: skip
    found = read(room, case, given)
    assert not found.readings
    assert found.limits


def test_a_step_of_adam_leaves_no_span_and_the_report_says_so(room: Room, case: Case) -> None:
    found = read(room, case, updates.trained(room.model, case.truths, 1, updates.adamw(1e-4)))
    assert not found.readings
    assert found.limits
    assert {limit.cause for limit in found.limits} <= {Cause.SIGNS, Cause.OTHER}


def test_patches_of_four_pixels_fill_the_span(tmp_path: Path) -> None:
    size = SmallSize(224, 224, patch=4, embed=64, window=7, depths=(2,), heads=(4,))
    save_donut(new_donut(size, 400, seed=0), FIXTURES / "donut", tmp_path)
    small = Room(open_gradient_model(str(tmp_path), "cpu"), (FORM,))
    case = small.case(0)
    found = read(small, case, case.seen.gradient)
    assert not found.readings
    assert [limit.cause for limit in found.limits] == [Cause.PATCHES]
    assert "too many distinct patches for the width of the patch" in found.limits[0].words


def test_a_frozen_projection_and_a_resized_form_are_said(room: Room, case: Case) -> None:
    frozen = read(room, case, updates.frozen(case.seen.gradient, "patch_embeddings.projection"))
    resized = read_strings(room.model, replace(case.seen, scaled=True), np.random.default_rng(0), Silent())
    assert [limit.cause for limit in frozen.limits] == [Cause.MISSING]
    assert [limit.cause for limit in resized.limits] == [Cause.RESIZED]


def test_a_report_masks_what_was_written_and_what_was_read(room: Room, case: Case) -> None:
    nearness = Nearness(own=1.1, other=5.0, random=8.0, ink=10)
    readings = (
        Reading("935-555-6543", ("field-1",), True, nearness),
        Reading("Grace Pepper", ("field-3", "field-4"), False, nearness),
    )
    found = compare(case, Strings(readings, 50, 200, ()), Strings((), 0, 0, ()))
    for reveal in (False, True):
        context: Any = SimpleNamespace(redactor=Redactor("salt", reveal=reveal), budget=BUDGET)
        check = strings_check(STRINGS, context, [found], [None])
        shown = check.model_dump_json()
        for value in (case.truths[0].values or {}).values():
            assert (value in shown) == reveal
        assert [row[4] for row in check.tables[0].rows] == ["read", "candidate", None]
    assert (found.right, found.named, found.wanted) == (1, 1, 4)


def test_false_strings_and_noise_count_against(case: Case) -> None:
    nearness = Nearness(own=1.1, other=5.0, random=8.0, ink=10)
    wrong = tuple(Reading(f"Wrong {at}", ("field-1",), True, nearness) for at in range(6))
    found = compare(case, Strings(wrong, 50, 200, ()), Strings((), 0, 0, ()))
    decision = decide([found.counts], BUDGET)
    assert found.counts["strings in their fields"][0].tolist() == [0, 6]
    assert decision is not None
    assert decision.level == "unresolved"


def test_what_was_read_can_be_kept_where_no_other_line_covers_anything_else() -> None:
    reading = Reading("1", ("field-1",), True, Nearness(own=1.1, other=float("inf"), random=float("inf"), ink=10))
    kept = audit._named(Strings((reading,), 50, 200, ()))
    assert '"excess": 1.1, "excess with another letter": null' in json.dumps(kept, allow_nan=False)


def test_what_was_read_is_not_read_again(
    room: Room, case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = Reading("935-555-6543", ("field-1",), True, Nearness(own=1.1, other=5.0, random=float("inf"), ink=10))
    limits = (Limit(Cause.FONT, "strings: no line lies in the span"),)
    monkeypatch.setattr(audit, "read_strings", lambda *_: Strings((reading,), 50, 200, limits))
    with ResponseStore(tmp_path / "store.sqlite") as store:
        context: Any = SimpleNamespace(
            model=room.model, cases=(case,), records=Records(store), seed=0, calls=None, progress=Silent(),
            rng=lambda *_: np.random.default_rng(0),
        )  # fmt: skip
        first = audit.attack(context)
        monkeypatch.delattr(audit, "read_strings")
        (again,) = audit.attack(context)
    assert (again.readings, again.limits) == (first[0].readings, first[0].limits) == ((reading,), limits)
