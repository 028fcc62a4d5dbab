"""LayoutLM question answering as transformers does it: one query, one window at a time, every span tried."""

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import torch
from transformers import BertTokenizer, LayoutLMForQuestionAnswering, LayoutLMv3ForQuestionAnswering
from transformers.models.layoutlmv3.image_processing_pil_layoutlmv3 import LayoutLMv3ImageProcessorPil
from transformers.models.layoutlmv3.tokenization_layoutlmv3 import LayoutLMv3Tokenizer
from transformers.models.roberta.tokenization_roberta import RobertaTokenizer

from pfl_audit.documents.document import Query


@dataclass(frozen=True)
class Said:
    answer: str
    confidence: float
    loss: float
    windows: int


def tokenizer_of(folder: Path, kind: str) -> Any:
    if kind == "v1":
        return BertTokenizer.from_pretrained(folder)
    if kind == "v1-bpe":
        return RobertaTokenizer.from_pretrained(folder, add_prefix_space=True)
    return LayoutLMv3Tokenizer.from_pretrained(folder)


def network_of(folder: Path, kind: str) -> Any:
    family = LayoutLMForQuestionAnswering if kind.startswith("v1") else LayoutLMv3ForQuestionAnswering
    return family.from_pretrained(folder).eval()


def windows(query: Query, tokenizer: Any, kind: str, longest: int) -> list[dict[str, Any]]:
    """The pair, truncated and overlapping as the library does it, with a box for every token."""
    words = list(query.document.words)
    boxes = [[int(Decimal(str(edge)) * 1000) for edge in box] for box in query.document.boxes]
    options = {"truncation": "only_second", "max_length": longest, "return_overflowing_tokens": True}
    question = query.question.split()
    specials = 3 if kind == "v1" else 4
    asked = sum(len(tokenizer.backend_tokenizer.encode(word, add_special_tokens=False).ids) for word in question)
    options["stride"] = min(128, (longest - specials - asked) // 2)
    pair = {"text": question, "text_pair": words, "is_split_into_words": True}
    if kind.startswith("v3"):
        pair = {"text": [query.question], "text_pair": [words], "boxes": [boxes]}
    encoded = tokenizer(**pair, **options, return_token_type_ids=True)
    found = []
    for number, ids in enumerate(encoded["input_ids"]):
        of = encoded.sequence_ids(number)
        words_of = [word if side == 1 else None for word, side in zip(encoded.word_ids(number), of, strict=True)]
        sep = [1000] * 4 if kind.startswith("v1") else [0] * 4
        placed = [
            boxes[word] if word is not None else sep if token == tokenizer.sep_token_id else [0] * 4
            for token, word in zip(ids, words_of, strict=True)
        ]
        if kind.startswith("v3"):
            assert placed == encoded["bbox"][number]
        found.append({"ids": ids, "boxes": placed, "types": encoded["token_type_ids"][number], "words": words_of})
    return found


@torch.no_grad()
def answer(folder: Path, kind: str, query: Query, longest: int, most: int) -> Said:
    network, tokenizer = network_of(folder, kind), tokenizer_of(folder, kind)
    images = {}
    if kind == "v3":
        assert query.document.image is not None
        processor = LayoutLMv3ImageProcessorPil.from_pretrained(folder, apply_ocr=False)
        images = {"pixel_values": processor(query.document.image.open(), return_tensors="pt")["pixel_values"]}
    asked = windows(query, tokenizer, kind, longest)
    place = occurrence(query)
    best, words, loss, first_inputs = -1.0, (0, -1), None, None
    for window in asked:
        of = window["words"]
        inputs = {
            "input_ids": torch.tensor([window["ids"]]),
            "bbox": torch.tensor([window["boxes"]]),
            "token_type_ids": torch.tensor([window["types"]]),
            **images,
        }
        out = network(**inputs)
        starts, ends = out.start_logits[0].softmax(-1).tolist(), out.end_logits[0].softmax(-1).tolist()
        for first in range(len(of)):
            for last in range(first, min(first + most, len(of))):
                if of[first] is not None and of[last] is not None and starts[first] * ends[last] > best:
                    best, words = starts[first] * ends[last], (of[first], of[last])
        if loss is None and place is not None:
            inside = [at for at, word in enumerate(of) if word is not None and place[0] <= word <= place[1]]
            wanted = sum(
                len(tokenizer.backend_tokenizer.encode(query.document.words[word], add_special_tokens=False).ids)
                for word in range(place[0], place[1] + 1)
            )
            if len(inside) == wanted:
                loss = asked_loss(network, inputs, inside[0], inside[-1])
        first_inputs = first_inputs or inputs
    if loss is None:
        loss = asked_loss(network, first_inputs, 0, 0)
    return Said(" ".join(query.document.words[words[0] : words[1] + 1]), best, loss, len(asked))


def asked_loss(network: Any, inputs: dict[str, Any], start: int, end: int) -> float:
    return float(network(**inputs, start_positions=torch.tensor([start]), end_positions=torch.tensor([end])).loss)


def occurrence(query: Query) -> tuple[int, int] | None:
    """First and last word of the answer, for pages whose words hold no blanks."""
    words, wanted = [word.lower() for word in query.document.words], query.answers[0].lower().split()
    for at in range(len(words)):
        if wanted and words[at : at + len(wanted)] == wanted:
            return at, at + len(wanted) - 1
    return None
