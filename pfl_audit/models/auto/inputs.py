"""Inputs of a query: prompt, page and answer as a processor or tokenizer of transformers makes them."""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from pfl_audit.documents.document import Document, Query
from pfl_audit.errors import UnanswerableError
from pfl_audit.models.auto.load import LONGEST_ANSWER, LoadedAuto
from pfl_audit.models.auto.processor import TURN, longest_input
from pfl_audit.models.auto.token_filter import TokenFilter
from pfl_audit.models.pages_ahead import PagesAhead
from pfl_audit.models.prompt_template import fill

Tensors = dict[str, Tensor]
"""Inputs of one query by the network's names, each with a first dimension of 1."""
_LONGEST_TEXT = 2048
_LONGEST_IMAGE = 16_384
"""Tokens of text, and of text and page image together, that are read at most."""
_PAGE_BYTES = 32 << 20
"""Of a page as it is read: an A4 page at 300 dpi has 26 MB."""
_BLANK = (224, 224)
"""Width and height of the white picture of a page without one."""


class TextInputs:
    """Inputs of a model that reads question and words as text.

    Words are left out from the end of the page until the prompt fits; the question is never cut.

    Args:
        template: With {question} and maybe {words}.
    """

    longest_input = _LONGEST_TEXT
    sees = False
    """Whether it takes the page image."""

    def __init__(self, loaded: LoadedAuto, template: str) -> None:
        self.loaded, self.template = loaded, template
        self.tokenizer, self.config = loaded.tokenizer, loaded.network.config
        self.encoder_decoder = bool(self.config.is_encoder_decoder)
        special = [token.content for token in self.tokenizer.added_tokens_decoder.values() if token.special]
        marks = [getattr(loaded.processor, f"{name}_token", None) for name in ("image", "video", "audio")]
        self._clean = TokenFilter([*self.tokenizer.all_special_tokens, *special, *(mark for mark in marks if mark)])
        self.longest = self._longest()
        self._turn = self._around()
        bos = self.tokenizer.bos_token
        complete = loaded.turn is not None and (type(self) is TextInputs or bool(bos and self._turn.startswith(bos)))
        self._special: dict[str, bool] = {"add_special_tokens": False} if complete else {}  # as apply_chat_template
        self.pages = PagesAhead(page_image, _PAGE_BYTES)
        self._text = lru_cache(maxsize=256)(self._fitting)

    def build(self, query: Query) -> Tensors:
        """The prompt as tensors.

        Raises:
            UnanswerableError: The question does not fit.
        """
        ids = self._ids(self.prompt(query))
        return {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.int64)}

    def cost(self, query: Query) -> int:
        """Length of the input in tokens."""
        return len(self._ids(self.prompt(query)))

    def prompt(self, query: Query) -> str:
        """The prompt with as many of the page's words as fit.

        Raises:
            UnanswerableError: The question does not fit.
        """
        return self._text(query, 0)

    def answer(self, value: str, prompt: str) -> list[int]:
        """Tokens that are scored: the answer and the end of sequence, at most LONGEST_ANSWER.

        Args:
            prompt: Text before it.
        """
        end = self.tokenizer.eos_token_id
        if self.loaded.kind.apart:
            ids = self._plain(self._clean(value))
        elif self.encoder_decoder:
            ids = list(self.tokenizer(text_target=self._clean(value))["input_ids"])
        else:
            between = "" if self.loaded.turn or prompt[-1:].isspace() else " "
            before = self._ids(prompt)
            whole = self._ids(f"{prompt}{between}{self._clean(value)}")
            fits = whole[: len(before)] == before
            ids = whole[len(before) :] if fits else self._plain(between + self._clean(value))
        ids = ids[:-1] if ids and ids[-1] == end else ids
        return [*ids[: LONGEST_ANSWER - 1], *([end] if end is not None else [])]

    def _fitting(self, query: Query, beside: int) -> str:
        words, question = [self._clean(word) for word in query.document.words], self._clean(query.question)

        def text(count: int) -> str:
            return self._turn.replace(TURN, fill(self.template, question, " ".join(words[:count])))

        def fits(count: int) -> bool:
            return len(self._ids(text(count))) + beside <= self.longest

        low, high = 0, len(words) if "{words}" in self.template else 0
        if fits(high):
            return text(high)
        if not fits(0):
            raise UnanswerableError(
                f"the question to page {query.document.id} does not fit into {self.longest} tokens",
                "Use a shorter --prompt, or a smaller size in preprocessor_config.json",
                f"question and page image take more than {self.longest} tokens",
            )
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return text(low)

    def _ids(self, text: str) -> list[int]:
        ids = list(self.tokenizer(text, **self._special)["input_ids"])
        ended = not self.encoder_decoder and ids and ids[-1] == self.tokenizer.eos_token_id and self.loaded.turn is None
        return ids[:-1] if ended else ids

    def _plain(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def _around(self) -> str:
        return self.loaded.turn or TURN

    def _longest(self) -> int:
        """Tokens of the longest input: the network's positions and the tokenizer's limit, the answer left free."""
        inner = self.config.get_text_config()
        names = ("max_position_embeddings", "n_positions", "max_source_positions")
        sizes = [size for name in names if isinstance(size := getattr(inner, name, None), int) and size > 0]
        free = 0 if self.encoder_decoder else LONGEST_ANSWER
        return max(1, min([self.longest_input, *(size - free for size in [*sizes, longest_input(self.tokenizer)])]))


class ImageInputs(TextInputs):
    """Inputs of a model that sees the page beside the prompt."""

    longest_input, sees = _LONGEST_IMAGE, True

    def __init__(self, loaded: LoadedAuto, template: str) -> None:
        super().__init__(loaded, template)
        self._beside: dict[tuple[int, int], int] = {}

    def build(self, query: Query) -> Tensors:
        """Prompt and page as tensors.

        Raises:
            UnanswerableError: The image cannot be read, or question and page do not fit.
        """
        return self._process(self.prompt(query), self.pages(query.document))

    def prompt(self, query: Query) -> str:
        """The prompt, as the processor takes it."""
        return self._text(query, self._tokens_beside(query))

    def cost(self, query: Query) -> int:
        """Tokens of text and page image."""
        return super().cost(query) + self._tokens_beside(query)

    def _tokens_beside(self, query: Query) -> int:
        """Tokens that the page image takes, which depend on its size alone."""
        size = query.document.image.size() if query.document.image else _BLANK
        if size not in self._beside:
            prompt = self._turn.replace(TURN, fill(self.template, "x", ""))
            length = self._process(prompt, page_image(query.document))["input_ids"].shape[1]
            self._beside[size] = max(0, length - len(self._ids(prompt)))
        return self._beside[size]

    def _process(self, prompt: str, image: Image.Image) -> Tensors:
        try:
            made = self.loaded.processor(text=[prompt], images=[image], return_tensors="pt", **self._special)
        except UnanswerableError:
            raise
        except Exception as error:  # processors raise many kinds, whose texts may quote the page
            raise UnanswerableError(
                f"the model's processor fails on a page ({type(error).__name__})",
                "Check the processor's files",
                f"the model's processor fails on it ({type(error).__name__})",
            ) from error
        return {name: value for name, value in made.items() if isinstance(value, Tensor) and name != "labels"}

    def _around(self) -> str:
        if self.loaded.turn is None and not self.loaded.kind.marked:
            return TURN
        mark = getattr(self.loaded.processor, "image_token", None) or ""
        turn = self.loaded.turn or TURN
        return turn if mark in turn or mark in self.template else turn.replace(TURN, f"{mark}{TURN}")


class UdopInputs(TextInputs):
    """Inputs of UDOP: the question, the words with their boxes in thousandths, and the page image."""

    sees = True

    def build(self, query: Query) -> Tensors:
        """Question, words, boxes and page as tensors; words that do not fit are left out.

        Raises:
            UnanswerableError: The image cannot be read, or the question does not fit.
        """
        page = self.loaded.processor.image_processor(self.pages(query.document), apply_ocr=False, return_tensors="pt")[
            "pixel_values"
        ]
        return {**self._encoded(query), "pixel_values": page}

    def cost(self, query: Query) -> int:
        """Tokens of the text, and patches."""
        patches = int(self.config.image_size // self.config.patch_size) ** 2
        return int(self._encoded(query)["input_ids"].shape[1]) + patches

    def _encoded(self, query: Query) -> Tensors:
        question = self.prompt(query)
        words = [self._clean(word) for word in query.document.words] or [""]
        boxes = (query.document.boxes * 1000).astype(int).tolist() or [[0, 0, 0, 0]]
        made = self.tokenizer(
            question, words, boxes=boxes, truncation="only_second", max_length=self.longest, return_tensors="pt"
        )
        return {name: made[name] for name in ("input_ids", "attention_mask", "bbox")}

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text_target=text)["input_ids"])


class HeaderInputs(TextInputs):
    """Inputs of Pix2Struct: the page with the question drawn above it, in a font that is passed in."""

    sees = True

    def build(self, query: Query) -> Tensors:
        """Patches of the page.

        Raises:
            UnanswerableError: The image cannot be read, or the question does not fit.
        """
        processor = self.loaded.processor.image_processor
        page = processor.render_header(self.pages(query.document), self.prompt(query), font_path=font())
        plain = copy(processor)
        plain.is_vqa = False  # the header is there
        made = plain([page], return_tensors="pt")
        return {name: made[name] for name in ("flattened_patches", "attention_mask")}

    def cost(self, query: Query) -> int:
        """Patches of a page."""
        return int(self.loaded.processor.image_processor.max_patches)


@lru_cache(maxsize=1)
def font() -> str:
    """Path of DejaVu Sans, which comes with matplotlib."""
    import matplotlib

    return str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf")


def page_image(document: Document) -> Image.Image:
    """The page as RGB; white if it has no picture.

    Raises:
        UnanswerableError: The image cannot be read.
    """
    return document.image.open() if document.image else Image.new("RGB", _BLANK, "white")


INPUTS: dict[str, Any] = {kind.__name__: kind for kind in (TextInputs, ImageInputs, UdopInputs, HeaderInputs)}
