"""The fewest operations that answers of a VT5 need, and the rate at which a processor multiplies matrices."""

from __future__ import annotations

import time
from collections.abc import Sequence

import torch

from pfl_audit.models.vt5.config import Vt5Config


def core_rate(size: int = 1536, rounds: int = 5) -> float:
    """Operations a second of the processor, the best of some products of two float32 matrices."""
    one, other = torch.rand(size, size), torch.rand(size, size)
    found = []
    for _ in range(rounds):
        begun = time.process_time()
        one @ other
        found.append(2 * size**3 / (time.process_time() - begun))
    return max(found)


def page_operations(config: Vt5Config) -> int:
    """Of a page's picture, once: DiT, and the projection to the width of the T5."""
    visual = config.visual
    width, inner = int(visual.hidden_size), int(visual.intermediate_size)
    tokens = config.visual_tokens
    patch = int(visual.num_channels) * int(visual.patch_size) ** 2
    layer = 8 * tokens * width**2 + 4 * tokens**2 * width + 4 * tokens * width * inner
    ends = 2 * (tokens - 1) * patch * width + 2 * tokens * width * int(config.text.d_model)
    return ends + int(visual.num_hidden_layers) * layer


def question_operations(config: Vt5Config, text: int, answers: Sequence[int]) -> int:
    """Of a question: its page and text read once, keys and values for the answers once, each token of them once.

    Args:
        text: Tokens of prompt and words.
        answers: Tokens that are computed, with the end: of the answer that is generated, and of the true one for its
            loss.
    """
    sizes = config.text
    width, inner = int(sizes.d_model), int(sizes.num_heads) * int(sizes.d_kv)
    rows = text + config.visual_tokens
    project, feed = 2 * width * inner, 4 * width * int(sizes.d_ff)
    encoder = rows * (4 * project + 4 * rows * inner + feed)
    across = 2 * rows * project
    found = 2 * text * width**2 + int(sizes.num_layers) * encoder + int(sizes.num_decoder_layers) * across
    for tokens in answers:
        before = tokens * (tokens + 1) // 2
        decoder = tokens * (6 * project + 4 * rows * inner + feed) + 4 * before * inner
        found += int(sizes.num_decoder_layers) * decoder + tokens * 2 * width * int(sizes.vocab_size)
    return found
