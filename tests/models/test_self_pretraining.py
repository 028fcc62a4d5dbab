"""Examples of self-pretraining against the forms that the pilot prints (federated-docvqa-pilot, 3.3)."""

from __future__ import annotations

import numpy as np
import pytest

from pfl_audit.models.pretraining_task import RATES, Form, Task
from pfl_audit.models.self_pretraining import (
    LONGEST_TARGET,
    MARKERS,
    MOST_MASKED,
    NO_BOX,
    Denoising,
    denoise,
    draw_masked,
    location_bins,
)

FIRST = 1000
WORDS = ("invoice", "total", "42")
BOXES = np.array([[0.0, 0.1, 0.25, 0.2], [0.3, 0.1, 0.5, 0.2], [0.998, 0.999, 1.0, 1.0]], np.float32)
MASKED = np.array([True, False, True])
FORMS = {
    (Task.TEXT, Form.PAPER): (
        "<text_0> <loc_0> <loc_50> <loc_125> <loc_100> total <text_1> <loc_499> <loc_499> <loc_500> <loc_500>",
        "<text_0> invoice <text_1> 42",
    ),
    (Task.TEXT, Form.CODE): (
        "<text_0> <loc_0> <loc_50> <loc_125> <loc_100> </text_0> total "
        "<text_1> <loc_499> <loc_499> <loc_500> <loc_500> </text_1>",
        "<text_0> invoice <text_1> 42",
    ),
    (Task.LAYOUT, Form.PAPER): (
        "<layout_0> invoice </layout_0> total <layout_1> 42 </layout_1>",
        "<layout_0> <loc_0> <loc_50> <loc_125> <loc_100> <layout_1> <loc_499> <loc_499> <loc_500> <loc_500>",
    ),
    (Task.TEXT_LAYOUT, Form.PAPER): (
        "<text_layout_0> total <text_layout_1>",
        "<text_layout_0> invoice <loc_0> <loc_50> <loc_125> <loc_100> "
        "<text_layout_1> 42 <loc_499> <loc_499> <loc_500> <loc_500>",
    ),
}


def names(ids: np.ndarray) -> str:
    return " ".join(MARKERS[token - FIRST] if token >= FIRST else WORDS[token] for token in ids)


def made(task: Task, form: Form = Form.PAPER, room: int = 100) -> Denoising:
    return denoise(task, [[0], [1], [2]], BOXES, MASKED, first=FIRST, form=form, room=room)


@pytest.mark.parametrize(("task", "form"), FORMS)
def test_input_and_target_have_the_printed_form(task: Task, form: Form) -> None:
    example = made(task, form)
    assert (names(example.ids), names(example.target)) == FORMS[task, form]


@pytest.mark.parametrize("task", Task)
def test_only_tokens_that_are_not_masked_keep_their_box(task: Task) -> None:
    example = made(task)
    kept = {WORDS[token]: unit for token, unit in zip(example.ids, example.units, strict=True) if unit != NO_BOX}
    assert kept == {"total": 1}


def test_the_pieces_of_a_masked_word_stay_together() -> None:
    example = denoise(Task.TEXT_LAYOUT, [[0, 1], [2]], BOXES, np.array([True, False]), first=FIRST, room=9)
    assert names(example.ids) == "<text_layout_0> 42"
    assert names(example.target) == "<text_layout_0> invoice total <loc_0> <loc_50> <loc_125> <loc_100>"


def test_a_unit_that_does_not_fit_is_in_neither_input_nor_target() -> None:
    example = made(Task.TEXT, room=10)
    assert names(example.ids) == "<text_0> <loc_0> <loc_50> <loc_125> <loc_100> total"
    assert names(example.target) == "<text_0> invoice"


def test_a_prompt_comes_first_and_has_no_box() -> None:
    example = denoise(
        Task.LAYOUT, [[1]], BOXES[:1], np.array([False]), first=FIRST, form=Form.CODE, prompt=[0, 2], room=3
    )
    assert names(example.ids) == "invoice 42 total"
    assert example.units.tolist() == [NO_BOX, NO_BOX, 0]
    assert len(denoise(Task.LAYOUT, [], BOXES[:0], MASKED[:0], first=FIRST, prompt=[0] * 9, room=4).ids) == 4


@pytest.mark.parametrize("task", Task)
def test_targets_leave_room_for_the_end(task: Task) -> None:
    count = MOST_MASKED
    boxes = np.zeros((count, 4), np.float32)
    example = denoise(task, [[0]] * count, boxes, np.ones(count, bool), first=FIRST, room=5000)
    each = {Task.TEXT: 2, Task.LAYOUT: 5, Task.TEXT_LAYOUT: 6}[task]
    assert len(example.target) == min(each * count, LONGEST_TARGET - 1)


@pytest.mark.parametrize("task", Task)
def test_units_are_masked_at_the_rate_of_the_task(task: Task) -> None:
    rng = np.random.default_rng(0)
    share = np.mean([draw_masked(task, 100, rng) for _ in range(300)])
    assert share == pytest.approx({"tm": 0.5, "lm": 0.75, "tlm": 0.15}[task], abs=0.01)
    assert RATES[task] == {"tm": 0.5, "lm": 0.75, "tlm": 0.15}[task]


def test_at_most_a_hundred_are_masked() -> None:
    assert draw_masked(Task.LAYOUT, 1000, np.random.default_rng(0)).sum() == MOST_MASKED


def test_boxes_off_the_page_have_bins() -> None:
    assert location_bins(np.array([-0.1, 0.5, 1.2, 0.002], np.float32)) == [0, 250, 500, 1]


def test_every_marker_has_its_own_name() -> None:
    assert len(set(MARKERS)) == len(MARKERS) == 5 * 100 + 501
