import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pfl_audit.attacks.inversion.context import Case, Observation, Truth
from pfl_audit.attacks.inversion.present import Presenter
from pfl_audit.attacks.inversion.reading import Pixels, Word
from pfl_audit.attacks.inversion.scoring import FEWEST_DOCUMENTS, Scored, pack, scoring, summarise
from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.attacks.inversion.template.fill import fill
from pfl_audit.attacks.inversion.word_scores import FieldReading
from pfl_audit.core.verdict import Budget
from pfl_audit.metrics.images import ImageScores
from pfl_audit.progress import Silent
from tests.attacks.inversion.template.drawn import form

VALUES = {"field-1": "Rosa Falcon", "field-2": "01/02/2003", "field-3": "$12.50"}
CHANCE = np.random.default_rng(0)


class Says:
    """Reads the same in every picture."""

    name = "parrot"

    def __init__(self, *words: str) -> None:
        self.words = [Word(word, 1.0) for word in words]

    def read(self, images: Sequence[Pixels]) -> list[list[Word]]:
        return [self.words for _ in images]


def case(*seeds: int) -> Case:
    truths = tuple(Truth(fill(form(), VALUES, seed).image, {}, VALUES) for seed in seeds)
    return Case(Observation("document 1", form(), {}, len(seeds)), truths)


def score(truth: Case, pages: Sequence[Pixels], engine: Says, steps: int = 0, objective: float | None = None) -> Scored:
    return scoring(truth, list(map(pack, pages)), CHANCE, steps, objective)(engine, Silent())


def scored(*fields: FieldReading, psnr: float = 20.0, guessed: float = 0.0) -> Scored:
    image = ImageScores(psnr, 0.1, 1.0)
    return Scored("d", form().pixels, image, replace(image, psnr=psnr + 10), psnr - 5, fields, guessed)


def test_a_page_that_came_back_whole() -> None:
    truth = case(0)
    found = score(truth, [truth.truths[0].page], Says("Rosa", "Falcon"), 7, 0.5)
    assert (found.fields.psnr, found.fields.mse, found.whole.psnr) == (160.0, 0.0, 160.0)
    assert [(field.exact, field.words) for field in found.read] == [(2, 2), (0, 1), (0, 1)]
    assert (found.name, found.steps, found.objective) == ("document 1", 7, 0.5)


def test_the_template_is_right_but_for_the_fields() -> None:
    found = score(case(0), [form().pixels], Says())
    assert found.whole.psnr > found.fields.psnr
    assert found.fields.mse > found.whole.mse > 0
    assert sum(field.exact for field in found.read) == 0
    assert found.guessed == 0


def test_of_a_batch_the_page_that_is_nearest_counts() -> None:
    truths = case(0, 1, 2)
    pages = [truth.page for truth in truths.truths]
    assert len({page.tobytes() for page in pages}) == 3
    for order in (pages, pages[::-1]):
        assert score(truths, order, Says()).fields.psnr == 160.0
    assert score(truths, pages[1:], Says()).fields.psnr < 40


def test_what_is_read_everywhere_is_what_can_be_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other value drawn anew is the word that the reader always says."""
    seeds = []

    def drawn(template: object, seed: int) -> dict[str, str]:
        seeds.append(seed)
        return dict.fromkeys(VALUES, "Rosa" if len(seeds) % 2 else "Peter")

    monkeypatch.setattr("pfl_audit.attacks.inversion.scoring.draw_values", drawn)
    assert score(case(0), [form().pixels], Says("Rosa")).guessed == pytest.approx(0.5)
    assert len(set(seeds)) == 20


def test_what_can_be_guessed_is_what_clients_write_and_not_what_fits_the_models_view() -> None:
    """Values are drawn for the form in its own size; a field that one leaves empty is no guess."""
    asked = []

    def drawn(number: int) -> tuple[dict[str, str], ...]:
        asked.append(number)
        first = dict.fromkeys(list(VALUES)[:2], "Rosa" if number % 2 else "Peter")
        return first, dict.fromkeys(VALUES, "another page")

    seen = replace(case(0), drawn=drawn)
    assert score(seen, [form().pixels], Says("Rosa")).guessed == pytest.approx(0.5)
    assert len(set(asked)) == 20


FIRST = (FieldReading("a", "x y", "x y", "x y"), FieldReading("b", "z", "", "z"))
SECOND = (FieldReading("a", "u v w", "u v", "u"),)


def test_few_documents_are_resampled_by_their_fields() -> None:
    found = summarise([scored(*FIRST, guessed=0.1), scored(*SECOND, guessed=0.2)], np.random.default_rng(0))
    assert (found.unit, found.units, found.documents, found.words) == ("fields", 3, 2, 6)
    assert found.exact.value == pytest.approx(4 / 6)
    assert found.original.value == pytest.approx(4 / 6)
    assert found.relative.value == pytest.approx(3 / 4)
    assert found.ratio.value == pytest.approx((1 + 1 + 1 / 3) / 3, abs=0.01)
    assert (found.exact.low, found.exact.high) == pytest.approx((1 / 3, 1.0))  # one field three times
    assert found.guessed == pytest.approx(0.15)


def test_documents_are_resampled_as_a_whole() -> None:
    """Alike within, opposite between: a document is right as a whole or wrong as a whole."""
    right = [FieldReading(str(at), "x", "x", "x") for at in range(50)]
    wrong = [FieldReading(str(at), "x", "x", "y") for at in range(50)]
    many = [scored(*(right if at % 2 else wrong), psnr=float(at)) for at in range(FEWEST_DOCUMENTS + 1)]
    found = summarise(many, np.random.default_rng(0))
    assert (found.unit, found.units, found.words) == ("documents", 6, 300)
    assert found.exact.value == 0.5
    assert found.exact.low <= 1 / 6  # 300 fields would leave 0.44
    assert found.pictures["psnr", "fields"].value == pytest.approx(2.5)
    assert found.pictures["psnr", "whole"].value == pytest.approx(12.5)
    assert found.pictures["gain", "fields"].value == pytest.approx(-2.5)
    everywhere = {(name, place) for name in ("psnr", "fft2d", "mse") for place in ("fields", "whole")}
    assert set(found.pictures) == {*everywhere, ("gain", "fields")}


def test_one_field_says_little_and_what_nobody_reads_has_no_share() -> None:
    found = summarise([scored(FieldReading("a", "x", "", "x"))], np.random.default_rng(0))
    assert (found.exact.value, found.exact.high) == (1.0, 1.0)
    assert found.exact.low == pytest.approx(0.025)
    assert found.units == 1
    assert math.isnan(found.relative.value)


@pytest.mark.parametrize(("fields", "level"), [(1, "unresolved"), (4, "leak")])
def test_one_field_resolves_nothing(fields: int, level: str) -> None:
    read = [FieldReading(str(at), "x", "x", "x") for at in range(fields)]
    context: Any = SimpleNamespace(cases=(), budget=Budget(0.05, 0.1))
    found = summarise([scored(*read)], np.random.default_rng(0))
    made = Presenter(context, InversionSettings(), "parrot")._words_finding(found)
    assert made.level == level
    assert made.plain is not None
    assert "recovers " + str(fields) + " exactly" in made.plain  # not that nothing came back
    assert ("too little to tell it from guessing" in made.plain) == (level == "unresolved")


def test_of_what_the_reader_cannot_read_nothing_is_said() -> None:
    context: Any = SimpleNamespace(cases=(), budget=Budget(0.05, 0.1))
    found = summarise([scored(*(FieldReading(str(at), "x", "", "") for at in range(4)))], np.random.default_rng(0))
    made = Presenter(context, InversionSettings(), "parrot")._words_finding(found)
    assert made.level == "unresolved"
    assert made.plain is not None
    assert made.plain.startswith("The reader reads no word of the original pages")
