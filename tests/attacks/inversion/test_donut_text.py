"""One gradient of a Donut: every token of question and answer comes back in its place."""

import time
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_audit.attacks.inversion.donut_text import recovery
from pfl_audit.attacks.inversion.donut_text.recovery import How, TextRecovery
from pfl_audit.attacks.inversion.donut_text.span import normal_odds, span_of
from pfl_audit.attacks.inversion.donut_text.tensors import find_noise, read_tensors
from pfl_audit.models.donut.inputs import InputBuilder
from pfl_audit.models.donut.small import SmallSize, config_of, new_donut, train_tokenizer
from pfl_audit.models.donut.text import DonutText, first_layer
from pfl_audit.models.donut.tokenizer import ANSWER, EOS, UNK, DonutTokenizer
from pfl_audit.models.samples import IGNORED
from tests.oracles.donut_text import client_gradient, distance, seen

SIZE = SmallSize(
    height=64, width=64, patch=8, embed=32, depths=(1, 1), window=4, d_model=96, ffn=64, longest=90,
)  # fmt: skip
VOCABULARY = 240
TOKENS = st.lists(st.integers(4, VOCABULARY - 1), min_size=3, max_size=24)


def donut(*, tied, vocabulary=VOCABULARY, **changes):
    """A small Donut with random weights; ``new_donut`` ties the output layer."""
    network = new_donut(SmallSize(**{**vars(SIZE), **changes}), vocabulary, seed=3)
    if not tied:
        own = torch.randn(network.decoder.lm_head.weight.shape, generator=torch.Generator().manual_seed(1))
        network.decoder.lm_head.weight = torch.nn.Parameter(own / 50)
    return network


def recover_text(gradient, network) -> TextRecovery:
    return recovery.recover_text(gradient, first_layer(network))


def gradient_of_ids(network, ids, scored=0.5):
    """Of a text whose second half is the answer."""
    first = int(len(ids) * (1 - scored))
    return client_gradient(network, [ids], [[*[IGNORED] * first, *ids[first + 1 :], 2]])


@pytest.fixture(scope="module")
def reader(red, tmp_path_factory):
    """A tokenizer that knows the fixture's texts, and what makes examples of its queries."""
    folder = tmp_path_factory.mktemp("pieces")
    train_tokenizer([text for query in red.queries for text in (query.question, *query.answers)], folder, VOCABULARY)
    tokenizer = DonutTokenizer.open(folder)
    network = donut(tied=True, vocabulary=tokenizer.size)
    return SimpleNamespace(tokenizer=tokenizer, build=InputBuilder(config_of(network), tokenizer))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_every_fixture_query_comes_back_exactly(red, reader, tied):
    network = donut(tied=tied, vocabulary=reader.tokenizer.size)
    queries = red.queries[:: max(1, len(red.queries) // 40)]
    for query in queries:
        example = reader.build.query(query)
        gradient = client_gradient(network, [example.ids], [example.labels])
        before = time.process_time()
        found = recover_text(gradient, network)
        assert time.process_time() - before < 1
        assert tuple(found.ids.tolist()) == example.ids
        assert found.sure.all()
        assert not found.limits
        assert found.present.tolist() == sorted(set(example.ids))
        text, ids = DonutText(network, reader.tokenizer), found.ids.tolist()
        assert text.example(ids) == example
        asked, said = text.decode(ids[: text.answer_at(ids)]), text.decode(ids[text.answer_at(ids) :])
        decode = reader.tokenizer.decode
        assert (asked, said) == tuple(
            decode(reader.tokenizer.encode(each)) for each in (query.question, query.answers[0])
        )
    assert len(queries) >= 20


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_any_tokens_in_any_order_however_often(tied):
    network = donut(tied=tied)

    @settings(max_examples=20, deadline=None, derandomize=True)
    @given(TOKENS)
    def recovers(ids):
        found = recover_text(gradient_of_ids(network, ids), network)
        assert found.ids.tolist() == ids
        assert found.sure.all()
        assert not found.mixed

    recovers()


@pytest.mark.parametrize("frozen", ["", "embed_tokens lm_head", "embed_positions", "self_attn", "embed lm_head"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_any_two_ways_of_three_are_enough_and_the_span_alone_is(tied, frozen):
    network = donut(tied=tied)
    ids = [7, 8, 30, 31, 9, 31, 100, 101, 8, 200, 9, 77]
    gradient = gradient_of_ids(network, ids)
    kept = {name: each for name, each in gradient.items() if not any(word in name for word in frozen.split())}
    found = recover_text(kept, network)
    assert found.ids.tolist() == ids
    assert found.sure.all()
    assert found.how is (How.SPAN if "embed" in frozen else How.ROWS)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_training_scaling_and_a_wrapper_change_nothing(tied):
    network = donut(tied=tied, layers=1)
    chance = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, each in network.named_parameters():
            each.add_(0.1 * torch.randn(each.shape, generator=chance) * (each.std() if "norm" not in name else 1))
    network.decoder.model.decoder.embed_tokens.embed_scale = 1.0
    ids = list(range(20, 60, 2))
    gradient = {f"module.{name}": -3 * each for name, each in gradient_of_ids(network, ids).items()}
    kept = {name: each.clone() for name, each in gradient.items()}
    for part in (gradient, {name: each for name, each in gradient.items() if "embed" not in name}):
        found = recover_text(part, network)
        assert found.ids.tolist() == ids
        assert found.sure.all()
    assert all(torch.equal(each, kept[name]) for name, each in gradient.items())


def test_rows_need_no_states_so_dropout_hides_nothing():
    ids = list(range(30, 50))
    for tied in (True, False):
        network = donut(tied=tied).train()
        for module in network.decoder.modules():
            if isinstance(getattr(module, "dropout", None), float):
                module.dropout = 0.1
        torch.manual_seed(0)
        found = recover_text(gradient_of_ids(network, ids), network)
        assert found.ids.tolist() == ids
        assert found.how is How.ROWS


def test_a_difference_of_weights_is_a_gradient():
    network, ids = donut(tied=True), list(range(30, 50))
    before = {name: each.detach().clone() for name, each in network.named_parameters()}
    step = {name: (before[name] - 0.1 * each) - before[name] for name, each in gradient_of_ids(network, ids).items()}
    assert recover_text(step, network).ids.tolist() == ids


def test_what_the_decoder_sees_is_what_it_is_said_to_see():
    network = donut(tied=True)
    with torch.no_grad():
        for name, each in network.named_parameters():
            if "norm" in name:
                each.add_(0.1 * torch.randn_like(each))
    ids = torch.tensor([5, 6, 70, 6, 239])
    decoder = first_layer(network)
    assert torch.allclose(
        decoder.attention_input(decoder.word_part(ids) + decoder.position_part(torch.arange(5))).float(),
        seen(network, ids.tolist()),
        atol=1e-5,
    )


def test_the_span_measures_what_least_squares_measure():
    network, ids = donut(tied=True), [7, 8, 30, 31, 9, 31]
    decoder = first_layer(network)
    tensors = read_tensors(gradient_of_ids(network, ids), decoder)
    span = span_of(tensors.attention, find_noise(tensors, decoder))
    assert span.rank == len(ids)
    states = decoder.attention_input(decoder.word_part(torch.arange(60)) + decoder.position_part(torch.tensor([2])))
    odds = span.odds(states)[0]
    away = torch.tensor([distance(each.numpy(), tensors.attention.numpy(), 1e-7) for each in states])
    assert int(odds.argmax()) == int(away.argmin()) == 30
    assert away[30] < 1e-5
    others = torch.arange(60) != 30
    assert away[others].min() > 0.05
    assert odds[others].max() < 0 < odds[30]


def test_odds_are_those_of_normal_numbers():
    from scipy.stats import norm

    drawn = torch.tensor([0.3, -1.2, 0.4], dtype=torch.float64)
    odds = normal_odds(drawn.square().sum(), torch.tensor(0.25, dtype=torch.float64), 3)
    assert float(odds) == pytest.approx((norm.logpdf(drawn, scale=0.5) - norm.logpdf(drawn)).sum())


def test_an_example_without_marks_or_with_unknown_tokens(reader):
    tokenizer = reader.tokenizer
    mark, end, unknown = (tokenizer.id(name) for name in (ANSWER, EOS, UNK))
    text = DonutText(None, tokenizer)
    assert text.example([40, 41, 42]).labels == (41, 42, end)
    gap = text.example([40, -1, mark, -1, 42])
    assert gap.ids == (40, unknown, mark, unknown, 42)
    assert gap.labels == (IGNORED, IGNORED, unknown, 42, end)
    assert text.example([]).ids == ()
    assert text.answer_at([40, mark, 41]) == 2
    assert text.answer_at([40, -1]) is None
    assert text.decode([40, -1]) == tokenizer.decode([40])
