from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_audit.attacks.inversion.clients import Clients
from pfl_audit.attacks.inversion.template.fill import fill, fits, fitting
from pfl_audit.attacks.inversion.template.template import Template, TemplateField
from pfl_audit.attacks.inversion.template.values import draw_values, question_for
from pfl_audit.errors import UsageError
from pfl_audit.progress import Silent
from tests.attacks.inversion.template.drawn import form

VALUES = {"field-1": "Rosa Falcon", "field-2": "01/02/2003", "field-3": "$12.50"}


def test_nothing_changes_outside_the_fields() -> None:
    template = form()
    for seed in range(5):
        changed = (fill(template, VALUES, seed).image != template.pixels).any(axis=-1)
        assert not (changed & ~template.mask()).any()
        for field in template.fields:
            assert (changed & template.mask([field])).any()


def test_words_stand_in_their_fields() -> None:
    template = form()
    page = fill(template, VALUES, 3)
    assert page.words == ("Rosa", "Falcon", "01/02/2003", "$12.50")
    assert page.owners == ("field-1", "field-1", "field-2", "field-3")
    assert page.values == VALUES
    boxes = {field.id: field.box for field in template.fields}
    for owner, (left, top, right, bottom) in zip(page.owners, page.boxes.tolist(), strict=True):
        field = boxes[owner]
        assert field[0] <= left < right <= field[2] + 1e-6
        assert field[1] <= top < bottom <= field[3] + 1e-6


def test_printed_words_come_before_what_is_written_beside_them() -> None:
    template = form()
    printed = np.array([[0.04, 0.14, 0.2, 0.2], [0.04, 0.33, 0.2, 0.39]], dtype=np.float32)
    template = Template(template.pixels, template.fields, ("Name:", "Date:"), printed)
    page = fill(template, {"field-1": "Rosa", "field-2": "today"}, 0)
    assert page.words == ("Name:", "Rosa", "Date:", "today")
    assert page.owners == ("", "field-1", "", "field-2")
    assert page.boxes[0] == pytest.approx(printed[0])


def test_the_seed_is_the_hand() -> None:
    same, again, other = (fill(form(), VALUES, seed).image for seed in (1, 1, 2))
    np.testing.assert_array_equal(same, again)
    assert (same != other).any()


def test_fields_without_a_value_stay_empty() -> None:
    template = form()
    page = fill(template, {"field-2": "x", "field-3": "  "}, 0)
    changed = (page.image != template.pixels).any(axis=-1)
    assert not changed[template.mask([template.fields[0], template.fields[2]])].any()


def test_long_values_are_broken_into_lines_where_there_is_room() -> None:
    field = TemplateField("field-1", (0.1, 0.1, 0.6, 0.6))
    template = Template(np.full((160, 200, 3), 255, np.uint8), (field,))
    page = fill(template, {"field-1": "12 Long Meadow Lane Harborton 12345"}, 0)
    assert len({round(float(bottom), 1) for bottom in page.boxes[:, 3]}) > 1
    assert page.words == ("12", "Long", "Meadow", "Lane", "Harborton", "12345")


def test_a_value_that_does_not_fit_is_not_told() -> None:
    with pytest.raises(UsageError, match="field-2 is too small") as error:
        fill(form(), {"field-2": "Secret" * 20}, 0)
    assert "Secret" not in str(error.value)


def test_a_field_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="no field 'field-9'"):
        fill(form(), {"field-9": "x"}, 0)


@settings(max_examples=30, deadline=None)
@given(value=st.text(max_size=12), seed=st.integers(0, 5))
def test_any_text_is_written_or_refused(value: str, seed: int) -> None:
    page = fill(form(), {"field-1": value}, seed)
    assert page.words == tuple(value.split())


@pytest.mark.parametrize(
    ("label", "pattern"),
    [
        ("Full name:", r"[A-Z]\w+ [A-Z]\w+"),
        ("Date of birth", r"\d\d/\d\d/\d{4}"),
        ("Amount due", r"\$\d+\.\d\d|\d\d/\d\d/\d{4}"),
        ("TOTAL:", r"\$\d+\.\d\d"),
        ("Phone no.", r"\d{3}-555-\d{4}"),
        ("Account number", r"\d{4}-\d{3}-\d{2}"),
        ("Policy no:", r"[A-Z]{2}-\d{5}"),
        ("City", r"[A-Z][a-z]+"),
        ("E-mail", r"\w+@\w+\.com"),
        ("", r"[A-Z]\w+ \w+"),
    ],
)
def test_a_value_suits_its_label(label: str, pattern: str) -> None:
    import re

    for seed in range(8):
        value = draw_values(form((label, "", "")), seed)["field-1"]
        assert re.fullmatch(pattern, value)


def test_values_fit_and_differ_between_seeds() -> None:
    template = form()
    drawn = [draw_values(template, seed) for seed in range(20)]
    assert drawn[0] == draw_values(template, 0)
    assert len({value["field-1"] for value in drawn}) > 15
    assert all(fits(template, field, value[field.id]) for value in drawn for field in template.fields)


def test_a_field_is_asked_for_by_its_label() -> None:
    template = form()
    assert question_for(template.fields[0], VALUES) == ("What is the name?", "Rosa Falcon")
    assert question_for(template.fields[2], VALUES) == ("What is written in field 3?", "$12.50")


def small_fields() -> Template:
    """Fields of a fifth of their width."""
    template = form()
    fields = []
    for field in template.fields:
        left, top, right, bottom = field.box
        fields.append(replace(field, box=(left, top, left + (right - left) / 5, bottom)))
    return replace(template, fields=tuple(fields))


def test_values_that_fit_are_those_that_can_be_written_one_by_one() -> None:
    template = small_fields()
    lost = 0
    for seed in range(60):
        values = draw_values(template, seed) | {"field-3": ""}
        slow = {}
        for key, value in values.items():
            with suppress(UsageError):
                slow[key] = fill(template, {key: value}, seed).values[key]
        assert fitting(template, values, seed) == slow
        assert fill(template, slow, seed).values == slow
        lost += len(values) - len(slow)
    assert lost > 20


def test_other_fillings_leave_a_field_empty_where_a_page_would() -> None:
    """Else each of them seems to have more to find than the page of a client."""
    clients = Clients(None, (small_fields(),), 0, None, Silent())  # type: ignore[arg-type]
    counts = []
    for number in range(60):
        template, seed = clients._of_filling(0, 0, number)
        (values,) = clients.values([(0, "?")], number)
        counts.append(len(values))
        if values:
            assert values == clients._fill(0, template, draw_values(template, seed), seed).values
        else:
            with pytest.raises(UsageError, match="no field of the template is large enough"):
                clients._fill(0, template, draw_values(template, seed), seed)
    assert min(counts) < 3
