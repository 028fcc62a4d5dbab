"""Verdicts on gradients that do not come from the page that they are held against."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.other_evidence import case_of
from tests.attacks.inversion.room import Room
from tests.attacks.inversion.template.drawn import form
from tests.bench.rates.engine import LEVELS, Design

FIXTURES = Path(__file__).parents[3] / "fixtures"
OTHER_LABELS = ("Sum:", "Place:", "Who:")


def _small_layoutlmv3() -> Path:
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return save_reader(folder, "v3")[0]


MODELS: dict[str, Callable[[], Path]] = {
    "LayoutLMv3, random weights": _small_layoutlmv3,
    "embedded Donut": lambda: FIXTURES / "donut",
    "embedded VT5": lambda: FIXTURES / "vt5-finetuned",
}


@cache
def room_of(name: str) -> Room:
    """Clients of two forms, and a model; the forms are those of the tests."""
    return Room(open_gradient_model(str(MODELS[name]()), "cpu"), (form(), form(OTHER_LABELS)))


def _prepare(model: str, *, in_place: bool) -> Callable[[int], str]:
    room = room_of(model)

    def audit(number: int) -> str:
        case = case_of(room, number)
        found = room.decision(case) if in_place else room.in_any_order(case)
        return "unresolved" if found is None else found.level

    return audit


DESIGNS: tuple[Design, ...] = tuple(
    Design(
        f"gradients, null: {model}, {'in place' if in_place else 'in any order'}",
        300,
        partial(_prepare, model, in_place=in_place),
        LEVELS,
    )
    for model in MODELS
    for in_place in (True, False)
    if not (in_place and "VT5" in model)
)
"""Kinds of evidence take turns. A VT5's words have no places without a search."""
