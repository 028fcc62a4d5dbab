"""Inputs of a query: prompt, words, boxes and pixels, in the order of the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.models.samples import IGNORED
from pfl_audit.models.vt5.config import HIGHEST_BOX, BoxScale, Vt5Config
from pfl_audit.models.vt5.modeling import TextBatch
from pfl_audit.models.vt5.tokenizer import EOS, PAD, Tokenizer

PROMPT = "question: {}  context: "
"""The question as it is put, two blanks before ``context``."""
PROMPT_BOX = (0, 0, HIGHEST_BOX, HIGHEST_BOX)
"""Rows of the tables of coordinates that the prompt has, of all of the page."""


@dataclass(frozen=True, eq=False)
class Text:
    """An encoded query: token ids, int64 (tokens,), and boxes, int64 (tokens, 4)."""

    ids: NDArray[np.int64]
    boxes: NDArray[np.int64]


class InputBuilder:
    """Builds a VT5's inputs."""

    def __init__(self, config: Vt5Config, tokenizer: Tokenizer) -> None:
        self.config = config
        self.tokenizer = tokenizer
        self._page = lru_cache(maxsize=4096)(self._read)

    def text(self, query: Query) -> Text:
        """Prompt, then the lower-cased words one by one, cut to the longest input, then end-of-sequence.

        The prompt's boxes span the page; the end's is empty; a word's pieces share its box.
        """
        prompt = np.array(self.tokenizer.encode(PROMPT.format(query.question)), dtype=np.int64)
        page = self._page(query.document)
        room = self.config.max_input_tokens - 1
        ids = np.concatenate([prompt, page.ids])[:room]
        boxes = np.concatenate([np.tile(np.array(PROMPT_BOX), (len(prompt), 1)), page.boxes])[:room]
        end = np.array([EOS], dtype=np.int64)
        return Text(np.concatenate([ids, end]), np.concatenate([boxes, np.zeros((1, 4), np.int64)]))

    def answer(self, answer: str) -> Tensor:
        """Labels, int64 (tokens,): lower-cased pieces and end-of-sequence, cut to the longest input."""
        return torch.tensor([*self.tokenizer.encode(answer.lower())[: self.config.max_input_tokens - 1], EOS])

    def pixels(self, document: Document) -> Tensor:
        """The page as the DiT takes it: float32 (channels, height, width), -1 to 1.

        Resized without regard to its proportions, bilinear, as DiT's image processor does. A page
        without an image is white.
        """
        size = int(self.config.visual.image_size)
        page = Image.new("RGB", (size, size), (255, 255, 255))
        if document.image is not None:
            page = _resized(document.image, document.image.digest, size)
        return _processor()(page, return_tensors="pt")["pixel_values"][0]

    def _read(self, document: Document) -> Text:
        pieces = self.tokenizer.encode_all([word.lower() for word in document.words])
        counts = np.array([len(piece) for piece in pieces], dtype=np.int64)
        ids = np.array([token for piece in pieces for token in piece], dtype=np.int64)
        boxes = np.repeat(box_indices(document.boxes, self.config), counts, axis=0)
        return Text(ids, boxes)


def box_indices(boxes: NDArray[np.float32], config: Vt5Config) -> NDArray[np.int64]:
    """Boxes in shares of the page to rows of the position tables, int64 (words, 4)."""
    scale = 1000.0 if config.box_scale is BoxScale.THOUSANDTHS else 1.0
    return np.clip((boxes.astype(np.float64) * scale).astype(np.int64), 0, HIGHEST_BOX)


@lru_cache(maxsize=1024)
def _resized(image: PageImage, digest: str, size: int) -> Image.Image:
    """A page of the given digest, resized: the models of an audit look at the same pages, and reading one is slow."""
    return image.open().resize((size, size), Image.Resampling.BILINEAR)


@lru_cache(maxsize=1)
def _processor() -> Any:
    from transformers.models.beit.image_processing_pil_beit import BeitImageProcessorPil

    return BeitImageProcessorPil(
        image_mean=[0.5, 0.5, 0.5], image_std=[0.5, 0.5, 0.5], do_resize=False, do_center_crop=False
    )


def collate(texts: Sequence[Text]) -> TextBatch:
    """Pad encoded queries on the right to the longest."""
    ids, boxes = (
        pad_sequence([torch.from_numpy(rows) for rows in some], batch_first=True, padding_value=PAD)
        for some in ([text.ids for text in texts], [text.boxes for text in texts])
    )
    return TextBatch(ids, boxes, torch.tensor([len(text.ids) for text in texts]))


def collate_labels(labels: Sequence[Tensor]) -> Tensor:
    """Pad labels, int64 (tokens,) each, with IGNORED: int64 (batch, longest)."""
    return pad_sequence(list(labels), batch_first=True, padding_value=IGNORED)
