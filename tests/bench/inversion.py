"""The closed form at full size: python -m tests.bench.inversion FOLDER (of the fcc-adbuy data).

A LayoutLMv3 of base size with random weights, in training with dropout as a client's is; one real page of 400
tokens; one gradient of its loss, in float32. What came back, how long it took, and what noise leaves of it. The
tokenizer is byte-pair encoding, made from the same pages, since the released one is not part of this project; what
matters of it is how often tokens repeat and how words fall into pieces.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.recovery import Recovery, recover
from pfl_audit.models.layoutlm.pixels import PixelSettings
from pfl_audit.models.layoutlm.words import embedding_layout
from pfl_audit.models.word_encoder import EmbeddingLayout
from tests.attacks.inversion.clients import Sample, noisy, psnr
from tests.oracles.inversion import client_gradient

TOKENS = 400
SETTINGS = PixelSettings((224, 224))
NOISES = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)


def main(folder: Path) -> None:
    """Print one line for the gradient, one for each version of it."""
    if not (folder / "docs.jsonl").is_file():
        print(f"{folder} has no docs.jsonl: nothing measured")
        return
    from transformers import LayoutLMv3Config, LayoutLMv3ForQuestionAnswering

    torch.manual_seed(0)
    page, goes_on = page_of(folder)
    network = LayoutLMv3ForQuestionAnswering(LayoutLMv3Config(max_position_embeddings=514)).train()
    before = time.perf_counter()
    gradient = client_gradient(network, page.inputs)
    print(f"gradient of {len(page.tokens)} tokens, {len(page.tokens.unique())} different: "
          f"{time.perf_counter() - before:.1f} s")  # fmt: skip
    weights = {name: each.detach() for name, each in network.named_parameters()}
    layout = embedding_layout(network.config, SETTINGS)
    report("as shared", page, layout, gradient, None)
    report("as shared, words known", page, layout, gradient, goes_on)
    for sigma in NOISES:
        report(f"noise of {sigma:.0e}", page, layout, noisy(gradient, sigma), goes_on)
    adam = {name: -2e-4 * (each / (each.abs() + 1e-8) + 0.01 * weights[name]) for name, each in gradient.items()}
    report("a step of AdamW", page, layout, adam, goes_on)
    print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")


def report(
    name: str, page: Sample, layout: EmbeddingLayout, gradient: Mapping[str, Tensor], goes_on: Tensor | None
) -> None:
    """Recover, and print what is right."""
    before = time.perf_counter()
    found = recover(gradient, layout, goes_on=goes_on)
    spent = time.perf_counter() - before
    tokens, boxes = shares(found, page)
    ratio = None if found.pixels is None else psnr(found.pixels, page.page)
    pixels = "-" if ratio is None else "exact" if ratio >= 200 else f"{ratio:.1f} dB"
    print(f"{name:24} tokens {tokens} boxes {boxes} page {pixels:>9} in {spent:5.1f} s "
          f"{'; '.join(map(str, found.limits))}", flush=True)  # fmt: skip


def shares(found: Recovery, page: Sample) -> tuple[str, str]:
    """Right, and wrong of what is called sure: tokens, and boxes."""
    count = len(page.tokens)
    told = min(count, len(found.tokens))
    right = torch.zeros(count, 2, dtype=torch.bool)
    right[:told, 0] = found.tokens[:told] == page.tokens[:told]
    right[:told, 1] = (found.boxes[:told] == page.boxes[:told]).all(dim=1)
    false = found.sure[:told] & ~right[:told]
    one, two = (f"{right[:, at].double().mean():7.2%} ({int(false[:, at].sum())} falsely sure)" for at in (0, 1))
    return one, two


def page_of(folder: Path) -> tuple[Sample, Tensor]:
    """The first page with native text that is long enough, and which tokens go on with a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    documents = [json.loads(line) for line in (folder / "docs.jsonl").read_text().splitlines()]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    trainer = trainers.BpeTrainer(
        vocab_size=20000,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([word[0] for each in documents for word in each["words"]], trainer)
    document = next(each for each in documents if each["text_source"] == "native" and len(each["words"]) > TOKENS)
    question = tokenizer.encode("what is the contract number ?").ids
    ids, boxes = [0, *question, 2, 2], [[0] * 4] * (len(question) + 3)
    for text, *edges in document["words"]:
        pieces = tokenizer.encode(text).ids
        sides = (document["width"], document["height"]) * 2
        ids += pieces
        boxes += [[int(1000 * min(max(edge / side, 0), 1)) for edge, side in zip(edges, sides, strict=True)]] * len(
            pieces
        )
    ids, boxes = [*ids[: TOKENS - 1], 2], [*boxes[: TOKENS - 1], [0] * 4]
    image = SETTINGS.pixels(Image.open(folder / document["image"]).convert("RGB"))
    inputs = {
        "input_ids": torch.tensor([ids]),
        "bbox": torch.tensor([boxes]),
        "attention_mask": torch.ones(1, TOKENS, dtype=torch.long),
        "pixel_values": image[None],
        "start_positions": torch.tensor([60]),
        "end_positions": torch.tensor([62]),
    }
    goes_on = torch.zeros(50265, dtype=torch.bool)
    for name, number in tokenizer.get_vocab().items():
        goes_on[number] = not name.startswith(("Ġ", "<"))
    return Sample(inputs, image * 0.5 + 0.5), goes_on


if __name__ == "__main__":
    main(Path(sys.argv[1]))
