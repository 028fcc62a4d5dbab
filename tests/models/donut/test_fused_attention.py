"""Fused modules agree with those of transformers under plain autograd, first and second derivatives included."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pfl_audit.models.donut.checkpoint import load_donut
from pfl_audit.models.donut.fused_attention import TESTED, fuse
from pfl_audit.models.donut.gradients import DonutGradients

Make = Callable[[str], Path]


def passes(network: Any, pixels: Tensor, ids: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """The loss of a batch, its gradient, and the slope of that gradient's square with respect to the pixels."""
    own = dict(network.named_parameters())
    loss = network(pixel_values=pixels, decoder_input_ids=ids, labels=ids.roll(-1, dims=1)).loss
    parts = torch.autograd.grad(loss, list(own.values()), create_graph=True, allow_unused=True)
    gradient = {name: part for name, part in zip(own, parts, strict=True) if part is not None}
    (slope,) = torch.autograd.grad(torch.stack([part.square().sum() for part in gradient.values()]).sum(), pixels)
    return loss.detach(), {name: part.detach() for name, part in gradient.items()}, slope


@pytest.mark.parametrize("kind", ["ours", "theirs"])
@pytest.mark.parametrize("samples", [1, 2])
def test_all_derivatives_agree(make_donut: Make, kind: str, samples: int) -> None:
    """In double precision, with windows that are shifted, padded and masked, and of one page or several."""
    network = load_donut(make_donut(kind)).network.eval().double().requires_grad_(True)
    torch.manual_seed(0)
    pixels = torch.randn(samples, 3, *network.config.encoder.image_size, dtype=torch.float64).requires_grad_(True)
    ids = torch.randint(4, 100, (samples, 9))
    plain = passes(network, pixels, ids)
    assert fuse(network) is None
    fused = passes(network, pixels, ids)
    assert torch.allclose(fused[0], plain[0], rtol=1e-12)
    assert list(fused[1]) == list(plain[1])
    largest = max(float(part.abs().max()) for part in plain[1].values())
    for name, part in plain[1].items():
        assert float((fused[1][name] - part).abs().max()) < 1e-12 * largest, name
    assert float((fused[2] - plain[2]).abs().max()) < 1e-11 * float(plain[2].abs().max())


def test_attention_weights_are_given_to_who_asks(make_donut: Make) -> None:
    network = load_donut(make_donut("ours")).network.eval().double()
    pixels = torch.randn(2, 3, *network.config.encoder.image_size, dtype=torch.float64)
    with torch.no_grad():
        plain = network.encoder(pixel_values=pixels, output_attentions=True).attentions
        fuse(network)
        fused = network.encoder(pixel_values=pixels, output_attentions=True).attentions
    for one, other in zip(plain, fused, strict=True):
        assert torch.allclose(one, other, atol=1e-12)


def test_normalisation_is_differentiated_twice_in_everything() -> None:
    """The weights' own second derivatives too, which pixels do not need."""
    norm = torch.nn.LayerNorm(5).double()
    fuse(norm)
    torch.manual_seed(0)
    values, weight, bias = (
        torch.randn(*shape, dtype=torch.float64).requires_grad_(True) for shape in ((2, 3, 5), (5,), (5,))
    )

    def normal(values: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return torch.func.functional_call(norm, {"weight": weight, "bias": bias}, (values,)).sin()

    assert torch.autograd.gradgradcheck(normal, (values, weight, bias))


def test_the_switch_leaves_transformers_modules_as_they_are(make_donut: Make) -> None:
    fused, plain = (DonutGradients(make_donut("ours"), fused=switch) for switch in (True, False))
    replaced = ["forward" in vars(module) for module in fused.network.modules()]
    assert any(replaced)
    assert not any("forward" in vars(module) for module in plain.network.modules())
    assert fused.fingerprint == plain.fingerprint
    assert fused.describe() == plain.describe()


@pytest.mark.parametrize("installed", ["4.57.1", "5.24.0", "6.0.0", "5.dev0"])
def test_with_another_version_it_is_plain_autograd_and_a_note(
    make_donut: Make, monkeypatch: pytest.MonkeyPatch, installed: str
) -> None:
    monkeypatch.setattr("pfl_audit.models.donut.fused_attention.version", lambda package: installed)
    model = DonutGradients(make_donut("ours"))
    assert not any("forward" in vars(module) for module in model.network.modules())
    assert model.describe()["notes"][-1] == (
        f"second derivatives by plain autograd: fused are for transformers 5.0 to 5.23, not {installed}"
    )


def test_the_package_asks_for_the_versions_that_are_tested() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    (first, last) = TESTED
    assert f"transformers>={first[0]}.{first[1]},<{last[0]}.{last[1] + 1}" in project["dependencies"]
