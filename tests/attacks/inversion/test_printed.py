from pathlib import Path

import numpy as np

from pfl_audit.attacks.inversion.printed import label_of, with_print
from pfl_audit.attacks.inversion.template.synthetic import IMAGE, TemplateRecipe, make_templates
from pfl_audit.attacks.inversion.template.template import open_template
from pfl_audit.progress import Silent


def test_what_is_printed_is_read_and_labels_the_fields(tmp_path: Path) -> None:
    (made,) = make_templates(TemplateRecipe(templates=1, seed=1), tmp_path / "t", Silent())
    read = with_print(open_template(tmp_path / "t" / "form-01" / IMAGE))
    assert [field.label for field in read.fields] == [field.label for field in made.fields]
    assert read.words == made.words
    assert np.abs(read.boxes - made.boxes).max() < 0.03
    assert with_print(made) is not made
    assert with_print(made).digest == made.digest


def test_labels_stand_beside_above_or_below(tmp_path: Path) -> None:
    made = make_templates(TemplateRecipe(templates=20, seed=3), tmp_path / "t", Silent())
    for template in made:
        for field in template.fields:
            assert label_of(template, field, template.words, template.boxes) == field.label
    field = made[0].fields[0]
    left, _, _, bottom = field.box
    below = np.array([[left + 0.01, bottom + 0.01, left + 0.1, bottom + 0.04]], dtype=np.float32)
    assert label_of(made[0], field, ("Signature",), below) == "Signature"
    assert label_of(made[0], field, (), below[:0]) == ""
