"""Samples of a batch of a Donut: question and answer of each, token after token."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pfl_audit.attacks.inversion.analytic.limits import Cause
from pfl_audit.attacks.inversion.analytic.noise import Noise
from pfl_audit.attacks.inversion.bag import bag_of, counts_of
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.controls import SAMPLES, noise_like
from pfl_audit.attacks.inversion.donut_text.samples import samples_of
from pfl_audit.models.donut.small import SmallSize, new_donut
from pfl_audit.models.donut.text import DonutText
from pfl_audit.models.donut.tokenizer import DonutTokenizer
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion.room import Room
from tests.attacks.inversion.template.drawn import form
from tests.attacks.inversion.updates import noisy, rounded

DONUT = Path(__file__).parents[3] / "fixtures/donut"
QUERIES = "layers.0.encoder_attn.q_proj.weight"


@pytest.fixture(scope="module")
def room() -> Room:
    return Room(open_gradient_model(str(DONUT), "cpu"), (form(), form(("Sum:", "Place:", "Who:"))))


def counted(room: Room, case) -> list[int]:
    """Right, wanted and named tokens with all before them, against the client's own pages."""
    return counts_of(room.model, case, bag_of(room.model, case))[SAMPLES][0].tolist()


def texts_of(room: Room, case) -> set[tuple[int, ...]]:
    return {tuple(room.model.text_decoder().ids(truth.text).tolist()) for truth in case.truths}


@pytest.mark.slow
@pytest.mark.parametrize("change", [None, torch.float16], ids=["float32", "float16"])
def test_both_questions_and_answers_of_a_batch_come_back(room, change):
    case = room.case(1, batch=2)
    if change is not None:
        case = room.case(1, batch=2, gradient=rounded(dict(case.seen.gradient), change))
    bag = bag_of(room.model, case)
    assert set(bag.pages) == texts_of(room, case)
    right, wanted, named = counted(room, case)
    assert right == wanted == named > 0
    assert not bag.limits


def test_answers_of_other_pages_are_no_evidence(room):
    others = [room.clients.page("document", 40 + 2 * at) for at in range(2)]
    case = room.case(1, batch=2, gradient=share(room.model, others))
    right, wanted, named = counted(room, case)
    assert right < wanted / 4
    assert named - right > right
    assert room.in_any_order(case).level == "unresolved"


@pytest.mark.slow
def test_nothing_is_missing_where_all_samples_are_certain(room):
    """Also where noise passes for tokens that are in none of them."""
    case = room.case(1, batch=2)
    bag = bag_of(room.model, room.case(1, batch=2, gradient=noisy(dict(case.seen.gradient), 1e-6)))
    assert set(bag.pages) == texts_of(room, case)
    assert not [limit for limit in bag.limits if limit.words.startswith("samples")]


def test_noise_leaves_the_order_unknown_and_says_so(room):
    case = room.case(1, batch=2)
    bag = bag_of(room.model, room.case(1, batch=2, gradient=noisy(dict(case.seen.gradient), 1e-3)))
    assert not bag.pages
    assert bag.limits


def test_without_the_queries_the_words_are_named_alone(room):
    case = room.case(1, batch=2)
    kept = {name: part for name, part in case.seen.gradient.items() if not name.endswith(QUERIES)}
    bag = bag_of(room.model, room.case(1, batch=2, gradient=kept))
    assert not bag.pages
    assert Cause.MISSING in [limit.cause for limit in bag.limits]


def test_states_are_those_of_the_tokens_so_far_whatever_the_page():
    """Against the whole network: the queries' gradient has no part outside the states of the text."""
    network = new_donut(
        SmallSize(height=64, width=64, patch=8, embed=32, depths=(1, 1), window=4, d_model=64, ffn=64, longest=40),
        DonutTokenizer.open(DONUT).size,
        seed=2,
    )
    text = DonutText(network, DonutTokenizer.open(DONUT))
    ids = [0, *torch.randint(12, 300, (9,), generator=torch.Generator().manual_seed(0)).tolist(), text.end]
    network.zero_grad()
    network(pixel_values=torch.rand(1, 3, 64, 64), **{k: v[None] for k, v in text.text(ids).items()}).loss.backward()
    gradient = dict(network.named_parameters())[f"decoder.model.decoder.{QUERIES}"].grad.double().numpy()
    states = np.concatenate([text.crossing_inputs(np.array([ids[: end + 1]])) for end in range(len(ids))])
    inside = np.linalg.qr(states.T)[0]
    outside = gradient - gradient @ inside @ inside.T
    assert np.abs(outside).max() < 1e-5 * np.abs(gradient).max()


def test_a_full_span_tells_nothing(room):
    decoder = room.model.text_decoder()
    width = decoder.first_layer().width
    full = torch.randn(width, width, generator=torch.Generator().manual_seed(0))
    found = samples_of(full, decoder, [[0], [5]], frozenset({0, 5}), 2, Noise(0.0, 1e-7, everywhere=False))
    assert not found.certain
    assert found.limits[0].cause is Cause.CROWDED


def test_a_sequence_outside_the_span_is_not_certain_even_if_there_is_no_other(room):
    decoder = room.model.text_decoder()
    ids = decoder.ids(room.case(1).truths[0].text).tolist()
    gradient = next(part for name, part in room.case(3).seen.gradient.items() if name.endswith(QUERIES))
    options, noise = [[token] for token in ids], Noise(0.0, 3 * 2.0**-24, everywhere=False)
    found = samples_of(gradient, decoder, options, frozenset(ids), 2, noise)
    assert not found.certain
    assert [limit.cause for limit in found.limits] == [Cause.MIXED]


def test_samples_are_counted_of_every_batch(room):
    """Also where nothing was separated, so that several updates and their noise are measured alike."""
    case = room.case(1, batch=2)
    noise = noise_like(case.seen.gradient, np.random.default_rng(0))
    assert SAMPLES in bag_of(room.model, room.case(1, batch=2, gradient=noise)).items
