"""Donut question answering as transformers does it: one query at a time, the whole prefix anew for every token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import PreTrainedTokenizerFast, VisionEncoderDecoderModel
from transformers.models.donut.image_processing_pil_donut import DonutImageProcessorPil

from pfl_audit.documents.document import Query

PROMPT = "<s_docvqa><s_question>{}</s_question><s_answer>"


@dataclass(frozen=True)
class Said:
    spoken: list[int]
    answer: str
    confidence: float
    loss: float
    tokens: int


class FileTokenizer:
    """A ``tokenizer.json`` through transformers, which reads the marks out of one long text."""

    def __init__(self, folder: Path) -> None:
        self.model = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))

    def encode(self, text: str) -> list[int]:
        return list(self.model(text, add_special_tokens=False).input_ids)

    def id(self, name: str) -> int:
        return int(self.model.convert_tokens_to_ids(name))

    def decode(self, ids: list[int]) -> str:
        return str(self.model.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)).strip()


class PieceTokenizer:
    """A ``spiece.model``; what is between the marks is cut out by hand."""

    def __init__(self, folder: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        self.model = SentencePieceProcessor(model_file=str(folder / "spiece.model"))

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        while text:
            marks = [text.index(mark) for mark in MARKS if mark in text]
            at = min(marks, default=len(text))
            ids += self.model.EncodeAsIds(text[:at])
            mark = next((mark for mark in MARKS if text[at:].startswith(mark)), "")
            ids += [self.id(mark)] if mark else []
            text = text[at + len(mark) :]
        return ids

    def id(self, name: str) -> int:
        return int(self.model.PieceToId(name))

    def decode(self, ids: list[int]) -> str:
        return str(self.model.DecodeIds([token for token in ids if not self.model.IsControl(token)])).strip()


MARKS = ("<s_docvqa>", "<s_question>", "</s_question>", "<s_answer>", "</s_answer>", "</s>")


def tokenizer_of(folder: Path) -> Any:
    return PieceTokenizer(folder) if (folder / "spiece.model").is_file() else FileTokenizer(folder)


def pixels_of(folder: Path, query: Query) -> torch.Tensor:
    processor = DonutImageProcessorPil.from_pretrained(folder)
    size = processor.size
    blank = Image.new("RGB", (size["width"], size["height"]), "white")
    image = query.document.image.open() if query.document.image else blank
    return processor(image, return_tensors="pt")["pixel_values"]


@torch.no_grad()
def answer(folder: Path, queries: Sequence[Query]) -> Iterator[Said]:
    network = VisionEncoderDecoderModel.from_pretrained(folder).eval()
    tokenizer = tokenizer_of(folder)
    ends = [tokenizer.id("</s_answer>"), tokenizer.id("</s>")]
    for query in queries:
        pixels = pixels_of(folder, query)
        prompt = tokenizer.encode(PROMPT.format(query.question))
        out = network.generate(
            pixel_values=pixels,
            decoder_input_ids=torch.tensor([prompt]),
            max_length=network.config.decoder.max_position_embeddings,
            do_sample=False,
            num_beams=1,
            use_cache=False,
            bad_words_ids=[[tokenizer.id("<unk>")]],
            eos_token_id=ends,
            forced_eos_token_id=None,
            return_dict_in_generate=True,
            output_logits=True,
        )
        spoken = out.sequences[0, len(prompt) :].tolist()
        spoken = spoken[:-1] if spoken[-1] in ends else spoken
        confidence = 1.0
        for token, logits in zip(spoken, out.logits, strict=False):
            confidence *= float(logits[0].double().softmax(-1)[token])
        whole = tokenizer.encode(PROMPT.format(query.question) + query.answers[0] + "</s_answer></s>")
        labels = torch.tensor([whole[1:]])
        labels[:, : len(prompt) - 1] = -100
        loss = network(pixel_values=pixels, decoder_input_ids=torch.tensor([whole[:-1]]), labels=labels).loss
        yield Said(spoken, tokenizer.decode(spoken), confidence, float(loss), len(whole) - len(prompt))
