"""Where the closed form stops: what is said of it, and that nothing wrong is called sure."""

from itertools import pairwise

import pytest
import torch

from pfl_audit.attacks.inversion.analytic.recovery import recover
from pfl_audit.errors import AuditError
from tests.attacks.inversion.clients import SETTINGS, layout_of, network_of, noisy, psnr, sample, together
from tests.oracles.inversion import client_gradient


@pytest.fixture(scope="module")
def shared():
    """A LayoutLMv3, a page, and the gradient."""
    network, page = network_of("v3"), sample("v3", 1)
    return network, page, client_gradient(network, page.inputs)


def causes(found):
    return {str(limit.cause) for limit in found.limits}


@pytest.mark.slow
def test_noise_takes_more_the_more_there_is(shared):
    network, page, gradient = shared
    right = []
    for sigma in (1e-9, 1e-7, 1e-6, 1e-5, 1e-4):
        found = recover(noisy(gradient, sigma), layout_of(network))
        assert found.noise == pytest.approx(sigma, rel=0.05)
        assert torch.equal(found.tokens, page.tokens)
        wrong = (found.boxes != page.boxes).any(dim=1)
        assert not (wrong & found.sure[:, 1]).any()
        right.append((1 - wrong.double().mean().item(), psnr(found.pixels, page.page)))
    assert [boxes for boxes, _ in right[:4]] == [1.0] * 4
    assert right[4][0] < 0.5
    assert all(less[1] >= more[1] - 0.5 for less, more in pairwise(right))
    assert right[0][1] > 60
    assert "noise" in causes(found)


def test_noise_alone_is_no_page(shared):
    network, _, gradient = shared
    found = recover(noisy({name: 0 * each for name, each in gradient.items()}, 1e-3), layout_of(network))
    assert not found.sure.any()
    assert not (found.tokens >= 0).any()
    assert "noise" in causes(found)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("sigma", [0.0, 1e-6])
@pytest.mark.parametrize("kind", ["v3", "v1"])
def test_a_batch_of_two_is_noticed(kind, sigma):
    network, pages = network_of(kind), [sample(kind, seed, words=30) for seed in (1, 2)]
    shortest = min(len(page.tokens) for page in pages)
    for page in pages:
        for name in ("input_ids", "bbox", "attention_mask", "token_type_ids"):
            if name in page.inputs:
                page.inputs[name] = page.inputs[name][:, :shortest]
    found = recover(noisy(client_gradient(network, together(*pages)), sigma), layout_of(network))
    assert causes(found) - {"noise"} == {"mixed"}
    assert "more than one sample" in str(found.limits[0])
    first, second = (page.tokens for page in pages)
    named = found.tokens >= 0
    assert named.double().mean() < 0.5
    assert ((found.tokens == first) | (found.tokens == second))[named & found.sure[:, 0]].all()
    if not sigma:
        assert found.present.tolist() == sorted({*first.tolist(), *second.tolist()})


def test_of_a_batch_the_end_of_the_longest_page_comes_back():
    network, long = network_of("v3"), sample("v3", 2, words=45)
    length = len(sample("v3", 1, words=20).tokens)
    short = sample("v3", 1, words=20, padding=len(long.tokens) - length)
    found = recover(client_gradient(network, together(long, short)), layout_of(network))
    assert "mixed" in causes(found)
    assert (found.tokens == long.tokens)[length:].double().mean() > 0.7
    sure = found.sure[:, 0]
    assert torch.equal(found.tokens[sure], long.tokens[sure])


@pytest.mark.parametrize(
    ("frozen", "lost", "left"),
    [
        ("word_embeddings", "the tokens are unknown", "boxes pixels"),
        (".position_embeddings", "which tokens stand where", "pixels present"),
        ("x_position", "left and right edges are unknown", "tokens pixels present"),
        ("y_position", "top and bottom edges are unknown", "tokens pixels present"),
        ("pos_embed", "the pixels are unknown", "tokens boxes present"),
        ("patch_embed.proj.weight", "the pixels are unknown", "tokens boxes present"),
    ],
)
@pytest.mark.parametrize("how", ["absent", "zero"])
def test_what_is_frozen_is_unknown_and_the_rest_is_not(shared, frozen, lost, left, how):
    network, page, gradient = shared
    kept = {name: each if frozen not in name else 0 * each for name, each in gradient.items()}
    if how == "absent":
        kept = {name: each for name, each in kept.items() if frozen not in name}
    found = recover(kept, layout_of(network))
    assert causes(found) == {"missing"}
    assert lost in str(found.limits[0])
    came = {
        "tokens": torch.equal(found.tokens, page.tokens),
        "boxes": torch.equal(found.boxes, page.boxes),
        "pixels": found.pixels is not None and psnr(found.pixels, page.page) > 100,
        "present": found.present.tolist() == sorted(set(page.tokens.tolist())),
    }
    assert {name for name, here in came.items() if here} == set(left.split())


def test_a_step_of_adam_leaves_most_tokens_and_no_boxes(shared):
    network, page, gradient = shared
    weights = dict(network.named_parameters())
    update = {
        name: -2e-4 * (each / (each.abs() + 1e-8) + 0.01 * weights[name].detach()) for name, each in gradient.items()
    }
    found = recover(update, layout_of(network))
    assert causes(found) == {"signs"}
    assert (found.tokens == page.tokens).double().mean() > 0.85
    sure = found.sure[:, 0]
    assert (found.tokens == page.tokens)[sure].double().mean() > 0.98
    assert (found.boxes == -1).all()
    assert found.pixels is None


def test_many_positions_in_narrow_tables_leave_boxes_open_and_none_wrong():
    sizes = {"hidden_size": 96, "coordinate_size": 16, "shape_size": 16}
    network, page = network_of("v3", **sizes), sample("v3", 0)
    found = recover(client_gradient(network, page.inputs), layout_of(network))
    assert torch.equal(found.tokens, page.tokens)
    assert causes(found) == {"crowded"}
    sure = found.sure[:, 1]
    assert not sure.all()
    assert torch.equal(found.boxes[sure], page.boxes[sure])


def test_a_bad_gradient_is_one_line(shared):
    network, _, gradient = shared
    word = next(name for name in gradient if "word_embeddings" in name)
    nan = gradient[word].clone()
    nan[3, 3] = torch.nan
    for bad, said in (
        (gradient | {word: gradient[word][:-1]}, "is \\(1999, 128\\), the model's is \\(2000, 128\\)"),
        (gradient | {word: nan}, "holds NaN or infinity"),
        (gradient | {word: gradient[word].long()}, "is of torch.int64"),
        (gradient | {f"other.{word}": gradient[word]}, "2 tensors that end in"),
        ({name: each for name, each in gradient.items() if "encoder" in name}, "holds nothing of the embeddings"),
    ):
        with pytest.raises(AuditError, match=said):
            recover(bad, layout_of(network))
    with pytest.raises(AuditError, match="the template is"):
        recover(gradient, layout_of(network), torch.ones(3, 5, 5))
    with pytest.raises(AuditError, match="goes_on is"):
        recover(gradient, layout_of(network), goes_on=torch.ones(3))
    with pytest.raises(AuditError, match="do not make the 49 patches"):
        recover(gradient, layout_of(network, type(SETTINGS)((224, 224))))
