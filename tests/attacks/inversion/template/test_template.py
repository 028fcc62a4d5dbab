import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from pfl_audit.attacks.inversion.template.template import Template, TemplateField, open_filled, open_template
from pfl_audit.documents.document import as_boxes
from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from tests.attacks.inversion.template.drawn import SIZE, WINDOWS, draw_form, form, save_form


def test_fields_are_where_the_file_says(tmp_path: Path) -> None:
    template = open_template(*save_form(tmp_path))
    assert [template.window(field) for field in template.fields] == list(WINDOWS)
    assert [field.id for field in template.fields] == ["field-1", "field-2", "field-3"]
    assert template.fields[1].label == "Label 1:"
    assert (template.size, template.pixels.shape) == (SIZE, (160, 200, 3))


def test_boxes_may_be_shares_of_the_page(tmp_path: Path) -> None:
    image, fields = save_form(tmp_path, [{"label": "", "box": [0.3, 0.125, 0.95, 0.25]}])
    template = open_template(image, fields)
    assert template.window(template.fields[0]) == (60, 20, 190, 40)


def test_printed_words_come_with_the_fields(tmp_path: Path) -> None:
    content = {"fields": [{"label": "N", "box": [60, 20, 190, 40]}], "words": [{"text": "N", "box": [8, 20, 28, 40]}]}
    template = open_template(*save_form(tmp_path, content))
    assert template.words == ("N",)
    assert template.boxes == pytest.approx(np.array([[0.04, 0.125, 0.14, 0.25]]))


def test_the_mask_marks_the_fields_and_nothing_else(tmp_path: Path) -> None:
    template = form()
    assert template.mask().sum() == 3 * 130 * 20
    assert template.mask(template.fields[:1]).nonzero()[0].tolist() == [y for y in range(20, 40) for _ in range(130)]


def test_the_page_is_the_pixels_as_shares() -> None:
    template = form()
    assert template.page.dtype == np.float32
    np.testing.assert_array_equal((template.page * 255).round().astype(np.uint8), template.pixels)


def test_the_digest_follows_pixels_fields_and_labels() -> None:
    digests = {form().digest, form(("Name:", "Date:", "x")).digest}
    assert len(digests) == 2
    assert form().digest in digests


BOX = [60, 20, 190, 40]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ([], "names no field"),
        ({}, "names no field"),
        ({"fields": 3}, "no list of fields"),
        ("x", "no list of fields"),
        ([3], "field 1 is not an object"),
        ([{"label": 3, "box": BOX}], "field 1 is not an object"),
        ([{"label": "a" * 201, "box": BOX}], "at most 200 letters"),
        ([{"label": "a"}], "no box of four numbers"),
        ([{"box": [1, 2, 3]}], "no box of four numbers"),
        ([{"box": [1, 2, 3, True]}], "no box of four numbers"),
        ([{"box": [1, 2, 3, float("nan")]}], "no box of four numbers"),
        ([{"box": [1, 2, 3, float("inf")]}], "no box of four numbers"),
        ([{"box": [1, 2, 3, 10**400]}], "no box of four numbers"),
        ([{"box": [60, 20, 201, 40]}], "field 1 lies outside the page of 200 x 160 pixels \\(read as pixels\\)"),
        ([{"box": [-1, 20, 20, 40]}], "lies outside"),
        ([{"box": [0.5, 0.5, 0.4, 0.9]}], "empty .*read as shares"),
        ([{"box": [60, 20, 63, 40]}], "below 4 pixels"),
        ([{"box": BOX}, {"box": [100, 39, 120, 60]}], "fields 1 and 2 overlap"),
        ({"fields": [{"box": BOX}], "words": [{"text": "a", "box": [0, 0, 900, 9]}]}, "a word lies outside"),
        ([{"box": BOX}] * 501, "more than 500 fields"),
    ],
)
def test_a_bad_file_is_one_clear_line(fields: object, message: str, tmp_path: Path) -> None:
    image, path = save_form(tmp_path, fields)
    with pytest.raises(AuditError, match=message) as error:
        open_template(image, path)
    assert error.value.remedy
    assert "\n" not in str(error.value)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.sampled_from(["fields", "box", "label"]), inner),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=_JSON)
def test_any_json_is_fields_or_a_clear_line(content: object, tmp_path: Path) -> None:
    image, path = save_form(tmp_path)
    path.write_text(json.dumps(content))
    try:
        assert open_template(image, path).fields
    except AuditError as error:
        assert error.remedy  # noqa: PT017 - either way is right


def test_a_label_is_one_line_without_control_characters(tmp_path: Path) -> None:
    template = open_template(*save_form(tmp_path, [{"label": "a\n\x1b[2Jb  c", "box": BOX}]))
    assert template.fields[0].label == "a [2Jb c"


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_picture(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.png").write_bytes(content)
    with pytest.raises(AuditError, match=r"template: .*cannot be used") as error:
        open_template(tmp_path / "t.png")
    assert "PNG or JPEG" in error.value.remedy


def test_a_page_that_is_too_small(tmp_path: Path) -> None:
    Image.new("RGB", (31, 40)).save(tmp_path / "t.png")
    with pytest.raises(AuditError, match="31 x 40"):
        open_template(tmp_path / "t.png")


def test_without_blank_boxes_the_user_says_where_they_are(tmp_path: Path) -> None:
    Image.new("RGB", (100, 100), "white").save(tmp_path / "t.png")
    with pytest.raises(NotAuditableError, match="--fields"):
        open_template(tmp_path / "t.png")


def test_a_document_of_another_size(tmp_path: Path) -> None:
    draw_form().resize((100, 80)).save(tmp_path / "d.png")
    with pytest.raises(UsageError, match="100 x 80 pixels and its template 200 x 160"):
        open_filled(tmp_path / "d.png", form())
    draw_form().save(tmp_path / "e.jpg")
    assert open_filled(tmp_path / "e.jpg", form()).shape == (160, 200, 3)


def test_the_digest_is_of_where_words_stand_too() -> None:
    """A defence that was made for other boxes is made again."""
    page, fields = np.zeros((40, 40, 3), np.uint8), (TemplateField("field-1", (0.0, 0.0, 0.5, 0.5)),)
    one, other = (Template(page, fields, ("Name:",), as_boxes([[0.5, 0.5, right, 1.0]], 1)) for right in (0.75, 1.0))
    assert one.digest != other.digest
