from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from pfl_audit.errors import UsageError
from pfl_audit.models.donut.checkpoint import load_donut
from pfl_audit.models.donut.network import EMBEDDING, INDEX, LM_HEAD, own_tensors, page_features
from pfl_audit.models.donut.small import PIECES, SmallSize, config_of, new_donut, save_donut, train_tokenizer
from pfl_audit.models.donut.tokenizer import DonutTokenizer

from .conftest import TINY

Make = Callable[[str], Path]


def test_the_same_seed_makes_the_same_network() -> None:
    state = torch.random.get_rng_state()
    one, same, other = (new_donut(TINY, 40, seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(tensor, same[name]) for name, tensor in one.items())
    assert not torch.equal(one[EMBEDDING], other[EMBEDDING])


@pytest.mark.parametrize(("height", "width"), [(192, 192), (256, 192), (192, 256), (256, 256)])
def test_the_default_sizes(height: int, width: int) -> None:
    with torch.device("meta"):
        network = new_donut(SmallSize(height, width), 1000, seed=0)
    projection = network.encoder.embeddings.patch_embeddings.projection.weight
    assert projection.shape[0] >= 2 * projection[0].numel()
    assert config_of(network).visual_tokens((height, width)) == height * width // 64
    assert sum(parameter.numel() for parameter in network.parameters()) < 2_500_000


def test_what_is_saved_opens_to_the_same_network(make_donut: Make, tmp_path: Path) -> None:
    network = new_donut(TINY, 200, seed=5)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) / 100)
    save_donut(network, make_donut("ours"), tmp_path)
    loaded = load_donut(tmp_path)
    assert own_tensors(loaded.network).keys() == own_tensors(network).keys()
    assert all(torch.equal(tensor, loaded.network.state_dict()[name]) for name, tensor in network.state_dict().items())
    assert loaded.config.to_dict() == config_of(network).to_dict()
    assert loaded.pixels.page == (TINY.height, TINY.width)
    pixels = torch.rand(2, 3, TINY.height, TINY.width)
    assert torch.equal(page_features(loaded.network, pixels), page_features(network.eval(), pixels))
    save_donut(network, tmp_path, tmp_path, dtype=torch.float16)
    kept = load_file(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in kept.values()} == {torch.float16}
    assert not [name for name in kept if name == LM_HEAD or name.endswith(INDEX)]


def test_training_is_without_chance(make_donut: Make) -> None:
    network = new_donut(TINY, 200, seed=5).train()
    inputs = {"pixel_values": torch.rand(1, 3, 64, 48), "decoder_input_ids": torch.tensor([[4, 5, 6, 7]])}
    assert torch.equal(network(**inputs).logits, network.eval()(**inputs).logits)


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (replace(TINY, height=16), "less than a window of 4"),
        (replace(TINY, heads=(2, 5)), "not a multiple of the number of attention heads"),
        (replace(TINY, d_model=33), "divisible"),
        (replace(TINY, height=0), "the page's side is not a whole number"),
    ],
)
def test_sizes_that_make_no_network(size: SmallSize, message: str) -> None:
    with pytest.raises(UsageError, match=f"such a small Donut cannot be built: .*{message}"):
        new_donut(size, 40, seed=0)


def test_every_character_has_a_piece(tmp_path: Path) -> None:
    texts = ["What is the total?", "4711 Żółw", "Who sends it?"] * 3
    train_tokenizer(texts, tmp_path, 60)
    tokenizer = DonutTokenizer.open(tmp_path)
    assert [tokenizer.decode(tokenizer.encode(text)) for text in texts] == texts
    assert tokenizer.id("</s>") == PIECES.index("</s>")
    assert tokenizer.size <= 60


def test_too_few_pieces(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no tokenizer of 12 pieces can be learnt"):
        train_tokenizer(["abcdefghijklmnopqrstuvwxyz"], tmp_path, 12)
