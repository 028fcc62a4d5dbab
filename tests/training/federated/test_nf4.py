"""NF4 messages: the levels, the packing, and the bytes of the paper."""

import pytest
import torch

from pfl_audit.training.federated.codecs import CODECS, payload_bytes
from pfl_audit.training.federated.nf4 import BLOCK, NF4, nf4_levels

BITSANDBYTES = [
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
]  # fmt: skip
"""The table that bitsandbytes holds as constants."""


def test_levels_are_those_of_bitsandbytes() -> None:
    assert nf4_levels().tolist() == pytest.approx(BITSANDBYTES, abs=2e-7)


def test_bytes_are_those_of_the_paper() -> None:
    """Competition, table A2: 3,419,136 numbers in 1.92 MB, four messages in 7.7 MB."""
    vector = torch.zeros(3_419_136)
    assert payload_bytes(NF4.encode(vector)) == 1_709_568 + 213_696
    assert payload_bytes(CODECS.named("float32").encode(vector)) == 13_676_544
    assert round(4 * payload_bytes(NF4.encode(vector)) / 1e6, 1) == 7.7


@pytest.mark.parametrize("size", [1, 2, 63, 64, 65, 1000])
def test_every_number_becomes_the_nearest_level(size: int) -> None:
    vector = torch.randn(size, generator=torch.Generator().manual_seed(size))
    found = NF4.decode(NF4.encode(vector), size)
    for start in range(0, size, BLOCK):
        block = vector[start : start + BLOCK]
        levels = torch.tensor(BITSANDBYTES) * block.abs().max()
        nearest = levels[(block.unsqueeze(1) - levels).abs().argmin(dim=1)]
        torch.testing.assert_close(found[start : start + BLOCK], nearest, rtol=1e-5, atol=1e-6)


def test_levels_survive_and_zeros_stay_zero() -> None:
    levels = nf4_levels() * 3.0
    assert torch.equal(NF4.decode(NF4.encode(levels), 16), levels)
    assert not NF4.decode(NF4.encode(torch.zeros(130)), 130).any()


@pytest.mark.parametrize("name", ["float32", "nf4"])
def test_a_payload_of_another_size_is_refused(name: str) -> None:
    codec = CODECS.named(name)
    with pytest.raises(ValueError, match="expected"):
        codec.decode(codec.encode(torch.ones(100)), 200)
