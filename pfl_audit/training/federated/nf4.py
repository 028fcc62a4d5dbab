"""NF4 messages: 4 bits a number and a float32 scale a block of 64 (pfl-docvqa-competition, appendix C.3)."""

from __future__ import annotations

from typing import Final

import torch
from scipy.special import ndtri
from torch import Tensor

from pfl_audit.training.federated.codecs import Payload

BLOCK: Final = 64
"""Numbers that share a scale."""
_OFFSET: Final = 0.9677083
"""Quantile of the largest level (bitsandbytes, ``create_normal_map``)."""


def nf4_levels() -> Tensor:
    """The 16 levels, float32 (16,), from -1 to 1: quantiles of the normal distribution, with 0 among them.

    Source: Dettmers, Pagnoni, Holtzman and Zettlemoyer 2023, "QLoRA: Efficient Finetuning of Quantized LLMs", eq. 4
    and appendix E.
    """
    positive = ndtri(torch.linspace(_OFFSET, 0.5, 9)[:-1].double().numpy())
    negative = -ndtri(torch.linspace(_OFFSET, 0.5, 8)[:-1].double().numpy())
    levels = torch.cat([torch.from_numpy(positive), torch.zeros(1, dtype=torch.float64), torch.from_numpy(negative)])
    return (levels.sort().values / levels.max()).float()


class Nf4:
    """Rounds every number to the nearest of 16 levels times the largest magnitude of its block: 4.5 bits a number."""

    summable = False
    lossy = True

    def encode(self, vector: Tensor) -> Payload:
        """Codes, uint8 (ceil(size / 2),), two in a byte, the first one in the high bits, and scales, float32."""
        size = len(vector)
        blocks = torch.nn.functional.pad(vector, (0, -size % BLOCK)).view(-1, BLOCK)
        scales = blocks.abs().amax(dim=1)
        scaled = blocks / scales.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(1)
        levels = nf4_levels()
        codes = torch.bucketize(scaled, (levels[1:] + levels[:-1]) / 2).to(torch.uint8).view(-1)[: size + size % 2]
        return {"codes": codes[0::2] << 4 | codes[1::2], "scales": scales}

    def decode(self, payload: Payload, size: int) -> Tensor:
        """Levels times scales."""
        packed, scales = payload["codes"], payload["scales"]
        if packed.shape != ((size + 1) // 2,) or scales.shape != (-(-size // BLOCK),):
            raise ValueError(f"codes and scales of {size} numbers are expected")
        codes = torch.stack([packed >> 4, packed & 15], dim=1).view(-1)[:size].long()
        return nf4_levels()[codes] * scales.repeat_interleave(BLOCK)[:size]


NF4: Final = Nf4()
