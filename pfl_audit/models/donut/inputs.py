"""Inputs of a query: the prompt, the target answer and the page."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from pfl_audit.documents.document import Query
from pfl_audit.models.donut.config import DonutConfig
from pfl_audit.models.donut.tokenizer import ANSWER, END_ANSWER, END_QUESTION, EOS, QUESTION, TASK, DonutTokenizer
from pfl_audit.models.samples import IGNORED


@dataclass(frozen=True)
class Example:
    """A query with the labels of training.

    Attributes:
        ids: Input tokens of the decoder.
        labels: Target token after each of them; IGNORED within the prompt.
    """

    ids: tuple[int, ...]
    labels: tuple[int, ...]

    def tensors(self) -> dict[str, Tensor]:
        """By the network's names, int64 (tokens,) each."""
        return {"decoder_input_ids": torch.tensor(self.ids), "labels": torch.tensor(self.labels)}


class InputBuilder:
    """Builds a Donut's inputs."""

    def __init__(self, config: DonutConfig, tokenizer: DonutTokenizer) -> None:
        self.config = config
        self.tokenizer = tokenizer

    def prompt(self, question: str) -> tuple[int, ...]:
        """``<s_docvqa><s_question>...</s_question><s_answer>``; a question longer than half of the positions is cut."""
        number = self.tokenizer.id
        asked = self.tokenizer.encode(question)[: self.config.longest // 2]
        return (number(TASK), number(QUESTION), *asked, number(END_QUESTION), number(ANSWER))

    def example(self, question: str, answer: str) -> Example:
        """The prompt, the answer, ``</s_answer>`` and ``</s>``, of which all after the prompt is scored.

        As in Donut's own training (clovaai/donut, DonutDataset), which ignores the labels up to ``<s_answer>``.
        An answer for which there is no place is cut.
        """
        prompt = self.prompt(question)
        ends = (self.tokenizer.id(END_ANSWER), self.tokenizer.id(EOS))
        said = self.tokenizer.encode(answer)[: self.config.longest - len(prompt) - len(ends)]
        labels = (*[IGNORED] * (len(prompt) - 1), *said, *ends)
        return Example((*prompt, *said, ends[0]), labels)

    def query(self, query: Query) -> Example:
        """The example of a query's first accepted answer."""
        return self.example(query.question, query.answers[0])
