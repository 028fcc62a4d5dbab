"""Words piece by piece in their order: distances are those of the network, and only a whole sequence is certain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from pfl_audit.attacks.inversion.analytic.limits import Cause
from pfl_audit.attacks.inversion.bag import bag_of, counts_of
from pfl_audit.attacks.inversion.bag_readers import Bag
from pfl_audit.attacks.inversion.clients import batch_of, place_template
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import WORDS
from pfl_audit.attacks.inversion.input_span.basis import bases_of
from pfl_audit.attacks.inversion.input_span.exchanges import exchanged
from pfl_audit.attacks.inversion.input_span.fits import Fits
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.attacks.inversion.input_span.residuals import Residuals
from pfl_audit.attacks.inversion.input_span.sequence import Distances, first_layer
from pfl_audit.attacks.inversion.input_span.text_search import _Search, search
from pfl_audit.attacks.inversion.input_span.texts import Texts, Word
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.vt5.gradients import Vt5Gradients
from pfl_audit.progress import Silent
from tests.attacks.inversion import updates
from tests.attacks.inversion.room import Room
from tests.fake_gpu import GPUS, gpu
from tests.oracles.input_span import best_pair, feed_inputs_of

FIXTURES = Path(__file__).parents[3] / "fixtures"
FEED = "language_backbone.encoder.block.0.layer.1.DenseReluDense.wi.weight"


@pytest.fixture(scope="module")
def room() -> Room:
    return Room(open_gradient_model(str(FIXTURES / "vt5-finetuned")), open_templates(FIXTURES / "templates")[:1])


@pytest.fixture(scope="module")
def case(room: Room) -> Case:
    return room.case(0)


@dataclass(frozen=True)
class Page:
    """Inputs of a page in their order, and as many with the text reversed behind them."""

    distances: Distances
    fits: Fits
    residuals: Residuals
    count: int

    def search(self, line: list[int | Word]) -> list[list[int]] | None:
        texts = Texts(self.distances, self.fits, line, self.residuals.page)
        return search(texts, self.residuals, np.random.default_rng(0))


@pytest.fixture(scope="module")
def page(room: Room, case: Case) -> Page:
    assert isinstance(room.model, Vt5Gradients)
    tables, weights = room.model.word_tables(), dict(room.model.network.named_parameters())
    parts, text = InputParts.of(tables.summed(), weights), case.truths[0].text
    words = (parts.words[text["ids"].numpy()] + parts.spatial(text["boxes"].numpy())) / parts.norm
    patches = tables.patches(batch_of(room.model, case.truths)[0][0]).double().numpy()
    basis = bases_of(case.seen.gradient[FEED].double().numpy(), 3 * 2.0**-24)[0]
    inputs, layer, rng = (
        np.concatenate([words, patches, words[::-1]]),
        first_layer(tables.layer(), tables.bias, weights),
        np.random.default_rng,
    )
    behind = range(len(words), len(words) + len(patches))
    residuals = Residuals(layer, basis, inputs, behind, basis.outside.shape[1], rng(0))
    return Page(Distances(layer, basis, inputs, None, rng(0)), Fits(layer, [basis], inputs), residuals, len(words))


def test_distances_are_those_of_what_the_network_gives_the_layer(room: Room, case: Case, page: Page) -> None:
    """Of the page, and of one with two pieces exchanged, which is outside at these and nearly nowhere else."""
    assert isinstance(room.model, Vt5Gradients)
    basis = bases_of(case.seen.gradient[FEED].double().numpy(), 3 * 2.0**-24)[0]
    found, count = page.distances, page.count
    patches = room.model.network.config.visual_tokens
    order = np.arange(count + patches)
    other = order.copy()
    other[[40, 41]] = order[[41, 40]]
    text = {name: part.clone() for name, part in case.truths[0].text.items()}
    for name in ("ids", "boxes"):
        text[name][[40, 41]] = text[name][[41, 40]]
    exchanged = replace(case.truths[0], text=text)
    both = found.of(np.stack([order, other]))
    for row, truth in zip(both, (case.truths[0], exchanged), strict=True):
        inputs, length = feed_inputs_of(room.model, truth)
        expected = np.square(basis.beside(inputs * length[:, None])).sum(axis=1)
        np.testing.assert_allclose(row, expected, rtol=1e-3, atol=1e-4)
    assert both[0, :count].max() < 1e-6
    assert both[1, [40, 41]].min() > 1e4 * both[0, :count].max()


def test_another_input_in_one_place_is_as_far_as_its_sequence_says(page: Page) -> None:
    found, count = page.distances, page.count
    order = np.arange(count + 65)
    others = np.array([3, 50, count + 65 + 7])
    sequences = np.repeat(order[None], len(others), axis=0)
    sequences[:, 33] = others
    np.testing.assert_allclose(found.at(order, 33, others), found.of(sequences)[:, 33], rtol=1e-6, atol=1e-9)


def test_residuals_are_as_long_as_distances(page: Page) -> None:
    order = np.arange(page.count + 65)
    exchanged = order.copy()
    exchanged[[40, 41]] = order[[41, 40]]
    for text in (order, exchanged):
        found = page.residuals.of(text[: page.count].tolist()).residuals
        lengths = np.square(found).sum(axis=1)
        expected = page.distances.of(text[None])[0]
        np.testing.assert_allclose(lengths[: page.count], expected[: page.count], rtol=1e-3, atol=1e-4)
        assert len(lengths) == page.count + 64


@pytest.mark.parametrize("lost", [range(63, 66), range(30, 33), [*range(30, 33), *range(62, 66)]])
def test_every_right_piece_that_is_added_costs_less(page: Page, lost: list[int]) -> None:
    """The sum of squares may rise with it, which ended searches at words that were too short."""
    texts = [[at for at in range(page.count) if at not in lost[many:]] for many in range(len(lost) + 1)]
    costs = [page.residuals.of(text).cost for text in texts]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < costs[0] - 1


def test_a_piece_too_many_in_one_word_and_too_few_in_another_are_exchanged(page: Page) -> None:
    among = tuple(range(page.count))
    line = [*range(30), Word(among, among, 3), *range(33, 60), Word(among, among, 6), *range(66, page.count)]
    texts = Texts(page.distances, page.fits, line, page.residuals.page)
    found = _Search(texts, page.residuals, np.random.default_rng(0))
    wrong = [[30, 31, 32, 20], [60, 61, 62, 63, 64]]
    cost = page.residuals.of(texts.laid(wrong)[0]).cost
    words = found._shifted(wrong)
    assert list(map(len, words)) == [3, 6]
    assert page.residuals.of(texts.laid(words)[0]).cost < cost


@pytest.mark.parametrize("place", [0, 33])
def test_residuals_of_another_input_are_those_of_its_text(page: Page, place: int) -> None:
    text, others = list(range(page.count)), [3, 50, page.count + 65 + 7]
    found = page.residuals.replaced(page.residuals.of(text), place, others)
    for left, other in zip(found, others, strict=True):
        expected = page.residuals.of([*text[:place], other, *text[place + 1 :]]).residuals
        np.testing.assert_allclose(left, expected, rtol=1e-3, atol=1e-4)


def test_what_fits_is_tested_is_what_the_network_gives_the_layer(room: Room, case: Case, page: Page) -> None:
    assert isinstance(room.model, Vt5Gradients)
    inputs, length = feed_inputs_of(room.model, case.truths[0])
    order = np.arange(page.count + 65)
    for place in (0, 33, page.count - 1):
        found = page.fits.parts.at(order, place, order[[place]])[0]
        np.testing.assert_allclose(found, inputs[place] * length[place], rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_words_come_back_from_half_precision(room: Room, case: Case) -> None:
    """Pixels are off by some levels, and the text is certain by what errors explain."""
    half = updates.rounded(case.seen.gradient, torch.float16)
    right, wanted, named = true_words(room, case, bag_of(room.model, room.case(0, gradient=half)))
    assert right == wanted == named > 0


@pytest.mark.parametrize("seed", range(4))
def test_an_exchange_is_the_best_of_all_pairs(seed: int) -> None:
    """One exchange is the oracle's; where nothing is exchanged, no pair leaves less."""
    rng = np.random.default_rng(seed)
    place = np.repeat(np.arange(4), 5)
    effects, left = rng.standard_normal((20, 6)).astype(np.float32), rng.standard_normal(6).astype(np.float32)
    effects[::5] = 0
    chosen = np.arange(0, 20, 5)
    while True:
        best = best_pair(effects, left, place, chosen)
        if len(best) == 0:
            break
        for choice in best:
            chosen[place[choice]] = choice
    found = exchanged(effects, left, place, np.arange(0, 20, 5))
    assert found.tolist() == chosen.tolist()


@pytest.mark.parametrize("hidden", [[(30, 33), (50, 52)], [(60, 66)]])
def test_hidden_words_come_back_whatever_their_length(case: Case, page: Page, hidden: list[tuple[int, int]]) -> None:
    text = case.truths[0].text
    inputs = torch.cat([text["ids"][:, None], text["boxes"]], dim=1)
    same = [int((inputs == one).all(dim=1).nonzero()[0]) for one in inputs]  # a piece may be twice in a word
    line: list[int | Word] = []
    at = 0
    for begin, end in hidden:
        among = tuple(sorted(set(same[begin - 4 : end + 4])))
        line += [*same[at:begin], Word(among, among, end - begin + 1)]
        at = end
    line += same[at:]
    words = page.search(line)
    assert words == [same[slice(*each)] for each in hidden]


def test_no_sequence_is_certain_without_the_true_pieces(page: Page) -> None:
    assert page.search([*range(30), Word((70, 71), (72, 73), 3), *range(33, page.count)]) is None


def true_words(room: Room, case: Case, bag: Bag) -> tuple[int, int, int]:
    right, wanted, named = counts_of(room.model, Case(case.seen, case.truths), bag)[WORDS][0].tolist()
    return right, wanted, named


def test_the_whole_text_and_the_page_come_back(room: Room, case: Case) -> None:
    bag = bag_of(room.model, case)
    right, wanted, named = true_words(room, case, bag)
    assert right == wanted == named > 0
    text = case.truths[0].text
    asked = text["ids"][(text["boxes"] == torch.tensor([0, 0, 1000, 1000])).all(dim=1)].tolist()
    assert list(bag.question) == asked[4:-4]
    assert bag.page is not None
    assert ((bag.page * 255).round().permute(1, 2, 0).numpy() == case.truths[0].page).all()


def test_a_page_of_another_form_has_no_order(room: Room, case: Case) -> None:
    template = place_template(room.model, open_templates(FIXTURES / "templates")[1], Silent())
    bag = bag_of(room.model, replace(case, seen=replace(case.seen, template=template)))
    assert bag.items[WORDS] == frozenset()
    assert any(limit.cause is Cause.FORM and "order" in limit.words for limit in bag.limits)


def test_a_frozen_page_encoder_is_said(room: Room, case: Case) -> None:
    frozen = replace(case.seen, gradient=updates.frozen(case.seen.gradient, "image_model."))
    bag = bag_of(room.model, replace(case, seen=frozen))
    assert (bag.items[WORDS], bag.page) == (frozenset(), None)
    assert any(limit.cause is Cause.MISSING and "page encoder" in limit.words for limit in bag.limits)


@pytest.mark.parametrize("seed", range(3))
def test_a_layer_of_noise_names_no_words(room: Room, case: Case, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(case.seen.gradient[FEED].shape, generator=generator)
    bag = bag_of(room.model, replace(case, seen=replace(case.seen, gradient={**case.seen.gradient, FEED: noise})))
    assert not bag.items[WORDS]
    assert any(limit.cause is Cause.CROWDED for limit in bag.limits)


def test_a_box_in_which_no_piece_can_stand_leaves_the_order_unknown() -> None:
    """The pairs of an update may rule out every piece of a box; a start would draw from none."""
    line = [0, Word((1, 2), (), 1), Word((), (), 2)]
    texts = Texts(None, None, line, range(3, 4))  # type: ignore[arg-type]
    assert search(texts, None, np.random.default_rng(0)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", GPUS)
def test_patches_of_a_gpu_come_to_the_device_of_the_page(kind: str, room: Room, case: Case) -> None:
    assert isinstance(room.model, Vt5Gradients)
    page = batch_of(room.model, case.truths)[0][0]
    with gpu(kind):
        model = open_gradient_model(str(FIXTURES / "vt5-finetuned"), "cuda")
        assert isinstance(model, Vt5Gradients)
        there = model.word_tables().patches(page).numpy()  # refused of a GPU's tensor
    np.testing.assert_allclose(there, room.model.word_tables().patches(page).numpy(), atol=1e-3)
