"""Pages with masked units as a VT5's examples."""

from __future__ import annotations

import numpy as np
import torch

from pfl_audit.documents.document import Document
from pfl_audit.models.pretraining_task import PROMPTS, Form, Task
from pfl_audit.models.question_training import Example
from pfl_audit.models.self_pretraining import denoise, draw_masked
from pfl_audit.models.vt5.inputs import InputBuilder, box_indices
from pfl_audit.models.vt5.tokenizer import EOS


def denoised(inputs: InputBuilder, document: Document, task: Task, form: Form, rng: np.random.Generator) -> Example:
    """Mask units of a page; input and target end with end-of-sequence.

    Args:
        inputs: Inputs of a network that has the tokens of self-pretraining.
        rng: Draws what is masked.
    """
    first = inputs.config.markers
    if first is None:
        raise ValueError("the network has no tokens of self-pretraining")
    words = inputs.tokenizer.encode_all([word.lower() for word in document.words])
    units: list[tuple[int, tuple[int, ...]]]
    if form is Form.PAPER:
        units = [(number, (token,)) for number, tokens in enumerate(words) for token in tokens]
    else:
        units = [(number, tokens) for number, tokens in enumerate(words) if tokens]
    boxes = document.boxes[[number for number, _ in units]]
    made = denoise(
        task,
        [tokens for _, tokens in units],
        boxes,
        draw_masked(task, len(units), rng),
        first=first,
        form=form,
        prompt=inputs.tokenizer.encode(PROMPTS[task]) if form is Form.CODE else (),
        room=inputs.config.max_input_tokens - 1,
    )
    rows = np.concatenate([box_indices(boxes, inputs.config), np.zeros((1, 4), np.int64)])  # NO_BOX is the last
    ids, labels = np.append(made.ids, EOS), np.append(made.target, EOS)
    tensors = {"ids": ids, "boxes": rows[np.append(made.units, -1)], "labels": labels}
    return Example(len(ids), {name: torch.from_numpy(values) for name, values in tensors.items()})
