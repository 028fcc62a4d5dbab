"""Where the text of a Donut stops coming back: what is said of it, and that nothing wrong is called sure."""

import pytest
import torch

from pfl_audit.attacks.inversion.donut_text.tensors import find_noise, read_tensors
from pfl_audit.errors import AuditError
from pfl_audit.models.donut.text import first_layer
from tests.attacks.inversion.clients import noisy
from tests.attacks.inversion.test_donut_text import IGNORED, donut, gradient_of_ids, recover_text
from tests.oracles.donut_text import client_gradient

IDS = [4, 5, 12, 10, 11, 9, 31, 46, 6, 7, 126, 9, 118, 119, 130, 46, 8]
WORD, POSITION = "decoder.model.decoder.embed_tokens.weight", "decoder.model.decoder.embed_positions.weight"
VALUE = "decoder.model.decoder.layers.0.self_attn.v_proj.weight"


def causes(found):
    return {str(limit.cause) for limit in found.limits}


def right(found):
    """Share of the tokens that came back; and that what is sure did."""
    truth = torch.tensor(IDS)[: len(found.ids)]
    same = found.ids[: len(truth)] == truth
    assert same[found.sure[: len(truth)]].all()
    return int(same.sum()) / len(IDS)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_noise_takes_more_the_more_there_is(tied):
    network = donut(tied=tied)
    gradient = gradient_of_ids(network, IDS)
    shares = []
    for sigma in (1e-9, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3):
        found = recover_text(noisy(gradient, sigma), network)
        layer = first_layer(network)
        assert find_noise(read_tensors(noisy(gradient, sigma), layer), layer).sigma == pytest.approx(sigma, rel=0.1)
        assert found.sure.all() != ("noise" in causes(found))
        shares.append(right(found))
    assert shares[:3] == [1.0] * 3
    assert shares[3] > 0.8
    assert shares[5] < 0.6


def test_noise_alone_is_no_text():
    network = donut(tied=True)
    nothing = {name: 0 * each for name, each in gradient_of_ids(network, IDS).items()}
    found = recover_text(noisy(nothing, 1e-3), network)
    assert not found.sure.any()
    assert causes(found) == {"noise"}
    without = {name: each for name, each in noisy(nothing, 1e-3).items() if "embed" not in name}
    assert not recover_text(without, network).sure.any()


def test_the_span_of_another_network_fits_no_token():
    gradient = gradient_of_ids(donut(tied=True), IDS)
    other = donut(tied=True)
    with torch.no_grad():
        other.decoder.model.decoder.embed_tokens.weight.normal_(std=0.02)
    found = recover_text({VALUE: gradient[VALUE], POSITION: gradient[POSITION]}, other)
    assert not found.sure.any()
    assert causes(found) == {"crowded", "missing"}


TEXTS = (
    IDS,
    [4, 5, 12, 10, 11, 9, 33, 6, 7, 60, 61, 62, 63, 64, 8],
    [4, 5, 80, 81, 82, 83, 6, 7, 84, 85, 86, 8],
    [4, 5, 12, 10, 90, 91, 92, 6, 7, 93, 94, 95, 96, 97, 98, 99, 100, 101, 102, 8],
)


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_of_a_batch_the_tokens_come_back_and_no_false_place(tied, size):
    network, texts = donut(tied=tied), TEXTS[:size]
    labels = [[*[IGNORED] * (len(ids) // 2), *ids[len(ids) // 2 + 1 :], 2] for ids in texts]
    found = recover_text(client_gradient(network, texts, labels), network)
    truth = [{ids[place] for ids in texts if place < len(ids)} for place in range(max(map(len, texts)))]
    assert found.mixed
    assert causes(found) == {"mixed"}
    assert "more than one sample in the batch" in str(found.limits[0])
    assert found.present.tolist() == sorted(set().union(*truth))
    assert len(found.ids) == len(truth)
    for place, here in enumerate(truth):
        if found.sure[place]:
            assert here == {int(found.ids[place])}
    assert found.sure[:2].all()


def test_a_sample_twice_is_no_batch():
    network = donut(tied=False)
    labels = [*[IGNORED] * 8, *IDS[9:], 2]
    found = recover_text(client_gradient(network, [IDS, IDS], [labels, labels]), network)
    assert found.ids.tolist() == IDS
    assert not found.mixed


def test_more_tokens_than_the_decoder_is_wide():
    ids = [4 + 7 * at % 200 for at in range(70)]
    found = recover_text(gradient_of_ids(donut(tied=False, d_model=32), ids), donut(tied=False, d_model=32))
    assert found.ids.tolist() == ids
    network = donut(tied=True, d_model=32)
    found = recover_text(gradient_of_ids(network, ids), network)
    assert "crowded" in causes(found)
    assert (found.ids == torch.tensor(ids))[found.sure].all()


def test_a_step_of_adam_leaves_most_tokens_unless_the_output_layer_is_in_it():
    for tied in (False, True):
        network = donut(tied=tied)
        update = {name: -2e-4 * each / (each.abs() + 1e-8) for name, each in gradient_of_ids(network, IDS).items()}
        found = recover_text(update, network)
        assert causes(found) == {"signs"}
        assert len(found.ids) == 0 if tied else (found.ids == torch.tensor(IDS)).double().mean() > 0.8


def test_without_positions_and_attention_only_the_set_of_tokens_is_known():
    network = donut(tied=False)
    found = recover_text({WORD: gradient_of_ids(network, IDS)[WORD]}, network)
    assert found.present.tolist() == sorted(set(IDS))
    assert len(found.ids) == 0
    assert causes(found) == {"missing"}


def test_orthogonality_alone_finds_many_tokens_and_none_for_sure():
    network = donut(tied=False)
    found = recover_text({POSITION: gradient_of_ids(network, IDS)[POSITION]}, network)
    assert not found.sure.any()
    assert right(found) > 0.4


def test_a_bad_gradient_is_one_line():
    network = donut(tied=True)
    gradient = gradient_of_ids(network, IDS)
    nan = gradient[VALUE].clone()
    nan[3, 3] = torch.nan
    for bad, said in (
        (gradient | {WORD: gradient[WORD][:-1]}, "embed_tokens.weight of the gradient is \\(239, 96\\), the model's"),
        (gradient | {POSITION: gradient[POSITION][None]}, "embed_positions.weight of the gradient is \\(1, 92, 96\\)"),
        (gradient | {VALUE: nan}, "v_proj.weight of the gradient holds NaN or infinity"),
        (gradient | {VALUE: gradient[VALUE].long()}, "is of torch.int64"),
        (gradient | {f"other.{WORD}": gradient[WORD]}, "2 tensors that end in"),
        ({}, "holds nothing of decoder.model.decoder.embed_tokens.weight"),
        ({name: 0 * each for name, each in gradient.items()}, "or zeros only"),
    ):
        with pytest.raises(AuditError, match=said) as error:
            recover_text(bad, network)
        assert "\n" not in str(error.value)
        assert error.value.remedy
