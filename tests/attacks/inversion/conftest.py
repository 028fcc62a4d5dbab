from pathlib import Path

import pytest

from pfl_audit.attacks.inversion.context import Case
from pfl_audit.models.donut.gradients import DonutGradients
from tests.attacks.inversion.leaking import NAMES, case_of, save_leaking
from tests.attacks.inversion.template.drawn import form, save_form
from tests.models.layoutlm.conftest import save_network, train_byte_pairs, train_word_piece
from tests.prepared import prepared


@pytest.fixture(scope="session")
def leaking_folder() -> Path:
    return prepared("leaking-donut", save_leaking)


@pytest.fixture(scope="session")
def leaking(leaking_folder: Path) -> DonutGradients:
    return DonutGradients(leaking_folder)


@pytest.fixture(scope="session")
def one_page(leaking: DonutGradients) -> Case:
    return case_of(leaking, NAMES[0])


def save_reader(folder: Path, kind: str) -> tuple[Path, tuple[Path, Path]]:
    """A small LayoutLM, wide enough for every token's box, and a form whose words it reads: picture and fields."""
    model = folder / kind
    model.mkdir()
    texts = ["What is written in the name date label?", "Rosa Falcon 01/02/2003 $12.50"]
    (train_word_piece if kind == "v1" else train_byte_pairs)(texts, model)
    save_network(kind, model, 144)
    fields = [{"label": field.label or "Sum:", "box": list(field.box)} for field in form().fields]
    return model, save_form(folder, {"fields": fields, "words": [{"text": "Label", "box": [0.05, 0.15, 0.2, 0.2]}]})
