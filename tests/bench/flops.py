"""Operations of a question to models of base size, and hours of the papers' audit: python -m tests.bench.flops.

Operations are counted by torch: a page of the longest input (512 tokens and the picture; Donut's picture in full size),
and an answer of 12 tokens that is written once and read once for its loss. The rate of a processor core is measured by
products of matrices, in seconds of the processor. Those of GPUs are their maker's, of which a share is assumed: these
hours are estimates. Training is counted as three times the forward pass of a question with its true answer.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import (
    BeitConfig,
    BeitModel,
    DonutSwinConfig,
    DonutSwinModel,
    LayoutLMv3Config,
    LayoutLMv3ForQuestionAnswering,
    MBartConfig,
    MBartForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from pfl_audit.models.vt5.config import Vt5Config, visual_config
from pfl_audit.training.scratch import SIZES
from tests.bench.products import core_rate, question_operations

QUESTIONS, MODELS, PASSES = 8100, 2, 4
WORDS, ANSWER = 512, 12
SHARE = 0.7
"""Of a core's rate of products that the engine reaches at base size."""
GPU_SHARE = 0.35
GPUS = {"A100, float32": 19.5e12, "A100, bfloat16": 312e12}


def zeros(*shape: int) -> torch.Tensor:
    """An input of which only the shape counts."""
    return torch.zeros(*shape, device="meta")


def vt5() -> None:
    """VT5: a picture of 197 tokens by DiT base, T5 base, and the answer twice."""
    BeitModel(BeitConfig()).to("meta")(zeros(1, 3, 224, 224))
    network = T5ForConditionalGeneration(
        T5Config(d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_decoder_layers=12, num_heads=12)
    ).to("meta")
    page = network.encoder(inputs_embeds=zeros(1, WORDS + 197, 768))
    for _ in range(2):
        network(encoder_outputs=page, decoder_input_ids=zeros(1, ANSWER).long())


def layoutlmv3() -> None:
    """LayoutLMv3 base: words and picture in one pass, which is computed, as its mask cannot be of a shape alone."""
    network = LayoutLMv3ForQuestionAnswering(LayoutLMv3Config(num_labels=2, max_position_embeddings=514))
    words = torch.zeros(1, WORDS, dtype=torch.long)
    boxes = torch.zeros(1, WORDS, 4, dtype=torch.long)
    network.layoutlmv3(words, bbox=boxes, pixel_values=torch.zeros(1, 3, 224, 224))


def donut_quarter() -> None:
    """A quarter of a page of 2560 by 1920 pixels; windows are of one size, so that operations grow with pixels."""
    swin = DonutSwinConfig(
        image_size=[1280, 960], embed_dim=128, depths=[2, 2, 14, 2], num_heads=[4, 8, 16, 32], window_size=10
    )
    DonutSwinModel(swin)(torch.zeros(1, 3, 1280, 960))


def donut_answer() -> None:
    """Donut's answer with its question, once."""
    decoder = MBartForCausalLM(
        MBartConfig(d_model=1024, decoder_layers=4, vocab_size=57_580, is_decoder=True, add_cross_attention=True)
    )
    words = torch.zeros(1, ANSWER + 20, dtype=torch.long)
    decoder(input_ids=words, encoder_hidden_states=torch.zeros(1, 4800, 1024))


def counted(run: Callable[[], None]) -> float:
    """Operations, two for a product and its sum."""
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        run()
    return float(counter.get_total_flops())


def training() -> int:
    """Of a training question to a VT5: forward, and twice that backward; features of its page are encoded before."""
    sizes = SIZES["base"]
    config = Vt5Config(T5Config(**sizes.text), visual_config(**sizes.visual), max_answer_tokens=sizes.max_answer_tokens)
    return 3 * question_operations(config, WORDS, (ANSWER,))


def hours(operations: float, core: float) -> str:
    """Hours on two cores, and on GPUs."""
    found = [f"2 cores {operations / (2 * core * SHARE) / 3600:,.1f} h"]
    for name, rate in GPUS.items():
        one = operations / (rate * GPU_SHARE) / 3600
        found.append(f"{name}: 1 {one:.2f} h, 8 {one / 8:.3f} h")
    return ", ".join(found)


def main() -> None:
    """Print operations a question and hours."""
    core = core_rate()
    asked = QUESTIONS * MODELS * PASSES
    print(f"{asked:,} questions; a core of this machine {core / 1e9:.0f} GFLOP/s, of which {SHARE:.0%}")
    each = training()
    print(f"training a VT5: {each / 1e9:,.0f} GFLOP a question; a million: {hours(1e6 * each, core)}", flush=True)
    ways = {"VT5": {vt5: 1}, "LayoutLMv3": {layoutlmv3: 1}, "Donut": {donut_quarter: 4, donut_answer: 2}}
    for model, parts in ways.items():
        each = sum(times * counted(run) for run, times in parts.items())
        print(f"{model}: {each / 1e9:,.0f} GFLOP a question; {hours(each * asked, core)}", flush=True)


if __name__ == "__main__":
    main()
