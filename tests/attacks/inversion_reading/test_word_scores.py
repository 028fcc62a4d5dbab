from collections.abc import Sequence

import numpy as np
import pytest

from pfl_audit.attacks.inversion.reading import Pixels, Word
from pfl_audit.attacks.inversion.template.fill import fill
from pfl_audit.attacks.inversion.template.template import Template, TemplateField
from pfl_audit.attacks.inversion.word_scores import FieldReading, read_fields
from tests.attacks.inversion.template.drawn import form


class Recognises:
    """Knows pictures that it was shown, and reads anything else as nothing."""

    name = "memory"

    def __init__(self) -> None:
        self.known: dict[bytes, str] = {}
        self.seen: list[tuple[int, ...]] = []

    def read(self, images: Sequence[Pixels]) -> list[list[Word]]:
        self.seen += [image.shape for image in images]
        return [[Word(text, 1.0) for text in self.known.get(image.tobytes(), "").split()] for image in images]


def test_counts_by_hand() -> None:
    field = FieldReading("f", truth="the red the fox", original="the red fox", read="fox the the box")
    assert (field.words, field.exact, field.readable, field.both) == (4, 3, 3, 2)
    assert FieldReading("f", "abcd", "abcd", "abcx").ratio == pytest.approx(0.75)
    assert FieldReading("f", "ab", "ab", "").ratio == 0.0


def test_a_word_is_exact_or_it_is_not() -> None:
    assert FieldReading("f", "Fox $1.50", "Fox $1.50", "fox $1,50").exact == 0


def test_fields_are_read_line_by_line_in_the_same_places() -> None:
    template = form()
    page = fill(template, {"field-1": "Rosa Falcon", "field-3": "$12.50"}, 0)
    engine = Recognises()
    found = read_fields(engine, template, page.image, page.image, page.values)
    assert [field.field for field in found] == ["field-1", "field-3"]
    assert [shape[1:] for shape in engine.seen] == [(130, 3)] * 4
    assert all(8 < shape[0] <= 20 for shape in engine.seen)
    assert [(field.original, field.read) for field in found] == [("", "")] * 2


def test_original_and_reconstruction_are_read_by_the_same_engine() -> None:
    template = form()
    page, other = (fill(template, {"field-1": text}, 0) for text in ("Rosa Falcon", "Peter Gold"))
    engine = Recognises()
    read_fields(engine, template, page.image, other.image, page.values)
    top = 20 + next(row for row in range(20) if (page.image[20 + row, 60:190] != 255).any()) - 3
    for picture, text in ((page.image, "Rosa Falcon"), (other.image, "Rosa Gold")):
        height = engine.seen[0][0]
        engine.known[picture[top : top + height, 60:190].tobytes()] = text
    (field,) = read_fields(engine, template, page.image, other.image, page.values)
    assert (field.truth, field.original, field.read) == ("Rosa Falcon", "Rosa Falcon", "Rosa Gold")
    (unknown,) = read_fields(engine, template, page.image, other.image)
    assert (unknown.truth, unknown.both) == ("Rosa Falcon", 1)


class Reads:
    """Reads where ink is: in the left half the printed word, in the right half the written one."""

    name = "halves"

    def read(self, images: Sequence[Pixels]) -> list[list[Word]]:
        found = []
        for image in images:
            middle = image.shape[1] // 2
            halves = ((image[:, :middle], "USD"), (image[:, middle:], "120"))
            found.append([Word(text, 1.0) for half, text in halves if (half < 128).any()])
        return found


def test_what_the_form_prints_in_a_field_is_nobodys() -> None:
    """An empty form that comes back, as where a search brings nothing, has no word of the client."""
    field = TemplateField("field-1", (0.1, 0.1, 0.9, 0.3))
    empty = np.full((100, 200, 3), 255, np.uint8)
    empty[12:20, 30:50] = 0
    template, page = Template(empty, (field,)), empty.copy()
    page[12:20, 120:150] = 0
    (unknown,) = read_fields(Reads(), template, page, empty)
    assert (unknown.truth, unknown.read, unknown.exact) == ("120", "", 0)
    (back,) = read_fields(Reads(), template, page, page)
    assert (back.truth, back.exact, back.words) == ("120", 1, 1)


def test_every_line_of_a_field_is_read() -> None:
    field = TemplateField("field-1", (0.1, 0.1, 0.6, 0.6))
    template = Template(np.full((160, 200, 3), 255, np.uint8), (field,))
    value = "12 Long Meadow Lane Harborton injured 12345"
    page = fill(template, {"field-1": value}, 0)
    engine = Recognises()
    read_fields(engine, template, page.image, page.image, page.values)
    lines = 1 + int((np.diff(page.boxes[:, 0]) < 0.05).sum())  # a word on the same line is further to the right
    assert lines > 2
    assert len(engine.seen) == 2 * lines
    assert sum(height for height, _, _ in engine.seen) <= 2 * 80  # no row is read twice
