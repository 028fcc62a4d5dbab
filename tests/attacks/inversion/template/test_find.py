from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from pfl_audit.attacks.inversion.template.find import find_boxes, reading_order
from tests.attacks.inversion.template.drawn import WINDOWS, draw_form


def found(page: Image.Image) -> list[tuple[int, ...]]:
    width, height = page.size
    boxes = find_boxes(np.array(page, dtype=np.uint8))
    return [tuple(round(edge * (width, height)[at % 2]) for at, edge in enumerate(box)) for box in boxes]


def drawn(draw_on: Callable[[ImageDraw.ImageDraw], object]) -> list[tuple[int, ...]]:
    page = Image.new("RGB", (200, 160), "white")
    draw_on(ImageDraw.Draw(page))
    return found(page)


def test_frames_and_rules_are_found_in_reading_order() -> None:
    assert found(draw_form())[:2] == list(WINDOWS[:2])
    left, top, right, bottom = found(draw_form())[2]
    assert (left, right, bottom) == (60, 190, 110)
    assert 95 <= top <= 100  # a line's height above the rule


def test_the_same_page_upside_down_in_grey_levels() -> None:
    negative = Image.fromarray(255 - np.array(draw_form()))
    assert found(negative) == found(draw_form())


@pytest.mark.parametrize("scale", [2, 5])
def test_larger_scans_have_the_same_fields(scale: int) -> None:
    page = draw_form().resize((200 * scale, 160 * scale), Image.Resampling.NEAREST)
    assert [tuple(edge // scale for edge in box) for box in found(page)][:2] == list(WINDOWS[:2])


def test_a_dotted_rule() -> None:
    def rule(draw: ImageDraw.ImageDraw) -> None:
        draw.text((10, 50), "Name:", fill="black", font=ImageFont.load_default(10))
        for x in range(60, 180, 4):
            draw.point((x, 62), fill="black")

    ((left, _, right, bottom),) = drawn(rule)
    assert (left, right, bottom) == (60, 177, 62)


def test_a_signature_has_its_label_below() -> None:
    def rule(draw: ImageDraw.ImageDraw) -> None:
        draw.line((60, 80, 160, 80), fill="black")
        draw.text((80, 84), "Signature", fill="black", font=ImageFont.load_default(9))

    assert len(drawn(rule)) == 1


def two_boxes(draw: ImageDraw.ImageDraw) -> None:
    draw.rectangle((10, 10, 20, 20), outline="black")  # a checkbox
    draw.rectangle((40, 40, 160, 70), outline="black")
    draw.text((50, 50), "Office use", fill="black", font=ImageFont.load_default(12))


@pytest.mark.parametrize(
    "draw_on",
    [
        two_boxes,
        lambda draw: draw.line((2, 80, 198, 80), fill="black"),  # divides the page
        lambda draw: draw.line((60, 80, 150, 80), fill="black"),  # has no label
        lambda draw: draw.rectangle((2, 2, 197, 157), outline="black"),  # frames the page
        lambda draw: draw.text((20, 40), "OO Qo 0808", fill="black", font=ImageFont.load_default(24)),
        lambda draw: draw.ellipse((40, 40, 140, 90), outline="black"),
        lambda draw: draw.rectangle((40, 40, 140, 90), fill="black"),
    ],
)
def test_what_is_no_field(draw_on: Callable[[ImageDraw.ImageDraw], object]) -> None:
    assert drawn(draw_on) == []


_EDGES = st.integers(0, 30)


@given(st.lists(st.tuples(_EDGES, _EDGES, st.integers(1, 9), st.integers(1, 9)), max_size=8))
def test_reading_order_names_every_box_once(sizes: list[tuple[int, int, int, int]]) -> None:
    boxes = [(float(x), float(y), float(x + w), float(y + h)) for x, y, w, h in sizes]
    assert sorted(reading_order(boxes)) == list(range(len(boxes)))


def test_reading_order_goes_row_by_row() -> None:
    boxes = [(50.0, 1.0, 60.0, 9.0), (10.0, 3.0, 20.0, 10.0), (30.0, 20.0, 40.0, 28.0), (0.0, 21.0, 9.0, 29.0)]
    assert reading_order(boxes) == [1, 0, 3, 2]
