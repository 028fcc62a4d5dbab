"""One gradient of one page, nothing else: all of the page comes back."""

import time

import pytest
import torch

from pfl_audit.attacks.inversion.analytic.recovery import recover
from tests.attacks.inversion.clients import GOES_ON, SETTINGS, layout_of, network_of, psnr, sample
from tests.oracles.inversion import client_gradient


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["v3", "v1", "bros"])
def test_everything_that_the_model_sees_comes_back_within_a_second(kind, seed):
    network, page = network_of(kind, seed), sample(kind, seed)
    gradient = client_gradient(network, page.inputs)
    before = time.process_time()
    found = recover(gradient, layout_of(network))
    assert time.process_time() - before < 1
    assert torch.equal(found.tokens, page.tokens)
    assert found.sure[:, 0].all()
    assert found.present.tolist() == sorted(set(page.tokens.tolist()))
    if kind == "bros":
        assert [limit.cause for limit in found.limits] == ["unseen"]
        return
    assert torch.equal(found.boxes, page.boxes)
    assert found.sure.all()
    assert found.limits == ()
    if kind == "v1":
        assert torch.equal(found.types, page.inputs["token_type_ids"][0])
    else:
        assert psnr(found.pixels, page.page) > 100
        assert found.page.error < 1e-4
        assert (found.types == 0).all()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(100, 120))
def test_twenty_forms_of_up_to_160_tokens_in_tables_28_wide(seed):
    network, page = network_of("v3", seed), sample("v3", seed)
    gradient = client_gradient(network, page.inputs)
    before = time.process_time()
    found = recover(gradient, layout_of(network), goes_on=GOES_ON)
    assert time.process_time() - before < 1
    assert torch.equal(found.tokens, page.tokens)
    assert torch.equal(found.boxes, page.boxes)
    assert psnr(found.pixels, page.page) > 100
    assert found.limits == ()


@pytest.mark.parametrize("kind", ["v3", "v1", "bros"])
def test_padding_hides_nothing(kind):
    network, page = network_of(kind), sample(kind, 7, padding=11)
    found = recover(client_gradient(network, page.inputs), layout_of(network))
    shown = len(page.tokens) - (11 if kind == "v3" else 0)
    assert torch.equal(found.tokens, page.tokens[:shown])
    if kind != "bros":
        assert torch.equal(found.boxes, page.boxes[:shown])
    if kind == "v1":
        assert torch.equal(found.types, page.inputs["token_type_ids"][0])


def test_clipping_and_the_name_of_the_wrapper_change_nothing():
    network, page = network_of("v3"), sample("v3", 1)
    gradient = {f"module.{name}": -1e-3 * each for name, each in client_gradient(network, page.inputs).items()}
    found = recover(gradient, layout_of(network))
    assert torch.equal(found.tokens, page.tokens)
    assert torch.equal(found.boxes, page.boxes)
    assert psnr(found.pixels, page.page) > 100


def test_a_difference_of_weights_after_a_plain_step_is_a_gradient():
    network, page = network_of("v3"), sample("v3", 1)
    before = {name: each.detach().clone() for name, each in network.named_parameters()}
    gradient = client_gradient(network, page.inputs)
    found = recover({name: (before[name] - 0.01 * each) - before[name] for name, each in gradient.items()},
                    layout_of(network))  # fmt: skip
    assert torch.equal(found.tokens, page.tokens)
    assert torch.equal(found.boxes, page.boxes)
    assert psnr(found.pixels, page.page) > 60


def test_half_precision_keeps_tokens_and_most_boxes():
    network, page = network_of("v3"), sample("v3", 1)
    gradient = client_gradient(network, page.inputs)
    found = recover({name: each.bfloat16() for name, each in gradient.items()}, layout_of(network))
    assert torch.equal(found.tokens, page.tokens)
    known = found.sure[:, 1]
    assert known.double().mean() > 0.6
    assert torch.equal(found.boxes[known], page.boxes[known])
    assert psnr(found.pixels, page.page) > 35


@pytest.mark.parametrize("masked", [1, 4])
def test_word_embeddings_may_be_the_output_layer_too(masked):
    from transformers import LayoutLMConfig, LayoutLMForMaskedLM

    page = sample("v1", 1)
    network = LayoutLMForMaskedLM(LayoutLMConfig(**network_of("v1").config.to_diff_dict()))
    labels = torch.full_like(page.inputs["input_ids"], -100)
    labels[0, 10 : 10 + 7 * masked : 7] = 99
    inputs = {name: each for name, each in page.inputs.items() if "positions" not in name} | {"labels": labels}
    gradient = client_gradient(network, inputs)
    assert not any("decoder.weight" in name for name in gradient)
    found = recover(gradient, layout_of(network))
    assert torch.equal(found.tokens, page.tokens)
    assert torch.equal(found.boxes, page.boxes)


def test_more_patches_than_numbers_a_patch_if_enough_of_them_are_blank():
    network, page = network_of("v3", input_size=224), sample("v3", 1, side=224)
    gradient = client_gradient(network, page.inputs)
    settings = type(SETTINGS)((224, 224))
    assert psnr(recover(gradient, layout_of(network, settings)).pixels, page.page) > 60


@pytest.mark.slow
def test_a_template_helps_where_the_page_is_full():
    network, page = network_of("v3", input_size=224), sample("v3", 1, side=224)
    noise = 0.5 * torch.rand(3, 224, 224, generator=torch.Generator().manual_seed(0))
    full, template = page.page * noise, noise.clone()
    template[:, 60:200] = (page.page * noise)[:, 60:200]
    gradient = client_gradient(network, page.inputs | {"pixel_values": (full[None] - 0.5) / 0.5})
    settings = type(SETTINGS)((224, 224))
    alone = recover(gradient, layout_of(network, settings))
    helped = recover(gradient, layout_of(network, settings), template)
    assert "crowded" in [limit.cause for limit in alone.limits]
    assert psnr(helped.pixels, full) > psnr(template, full) + 10
    assert psnr(helped.pixels, full) > psnr(alone.pixels, full) + 10
