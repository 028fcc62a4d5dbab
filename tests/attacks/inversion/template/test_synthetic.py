import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.attacks.inversion.template.fill import fill, fits
from pfl_audit.attacks.inversion.template.find import find_boxes
from pfl_audit.attacks.inversion.template.synthetic import FIELDS, IMAGE, TemplateRecipe, make_templates, open_templates
from pfl_audit.attacks.inversion.template.template import open_template
from pfl_audit.attacks.inversion.template.values import draw_values
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.progress import Silent

SMALL = TemplateRecipe(templates=3, seed=4)


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_recipe_gives_the_same_bytes_and_more_forms_leave_the_first_ones(tmp_path: Path) -> None:
    recipes = {"a": SMALL, "b": SMALL, "c": replace(SMALL, seed=5), "d": replace(SMALL, templates=4)}
    for name, recipe in recipes.items():
        make_templates(recipe, tmp_path / name, Silent())
    a, b, c, d = (digests(tmp_path / name) for name in recipes)
    assert a == b != c
    assert len(a) == 7
    assert {name for name in a if a[name] != d[name]} == {"recipe.json"}


@pytest.mark.parametrize(("width", "height"), [(224, 224), (256, 256), (256, 320)])
def test_forms_have_their_fields_and_room_for_values(width: int, height: int, tmp_path: Path) -> None:
    recipe = TemplateRecipe(templates=12, width=width, height=height, seed=1)
    templates = make_templates(recipe, tmp_path / "t", Silent())
    for number, template in enumerate(templates):
        assert template.size == (width, height)
        assert 4 <= len(template.fields) <= 6
        assert len({field.label for field in template.fields}) == len(template.fields)
        inside = template.pixels[template.mask()]
        assert (inside == 255).all()
        values = draw_values(template, number)
        assert all(fits(template, field, values[field.id]) for field in template.fields)
        page = fill(template, values, number)
        assert sorted(page.words) == sorted([*template.words, *" ".join(values.values()).split()])


def test_fields_are_found_without_being_told(tmp_path: Path) -> None:
    templates = make_templates(TemplateRecipe(templates=30, seed=2), tmp_path / "t", Silent())
    for template in templates:
        np.testing.assert_allclose(find_boxes(template.pixels), [field.box for field in template.fields])
    place = tmp_path / "t" / "form-01"
    found = open_template(place / IMAGE)
    np.testing.assert_array_equal(found.mask(), open_template(place / IMAGE, place / FIELDS).mask())


def test_they_are_opened_as_they_were_drawn(tmp_path: Path) -> None:
    made = make_templates(SMALL, tmp_path / "t", Silent())
    assert [one.digest for one in open_templates(tmp_path / "t")] == [one.digest for one in made]
    with pytest.raises(AuditError, match=r"holds no template\.png"):
        open_templates(tmp_path)


@pytest.mark.parametrize(
    "recipe",
    [
        TemplateRecipe(templates=0),
        TemplateRecipe(fewest=3),
        TemplateRecipe(fewest=6, most=5),
        TemplateRecipe(most=9),
        TemplateRecipe(width=64),
        TemplateRecipe(height=5000),
        TemplateRecipe(height=192, most=8),
    ],
)
def test_what_cannot_be_drawn(recipe: TemplateRecipe, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        make_templates(recipe, tmp_path / "t", Silent())
    assert not (tmp_path / "t").exists()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")
    with pytest.raises(UsageError, match="not empty"):
        make_templates(SMALL, tmp_path, Silent())
