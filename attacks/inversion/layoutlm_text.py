"""What went into a LayoutLM: from the closed form and, for the place of the answer, from the head's gradient."""

from __future__ import annotations

from typing import Any

import torch
from pfl_audit.attacks.inversion.analytic.recovery import Recovery, recover
from torch import Tensor

from pfl_audit.audit.gradient_case import Observation
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.gradient_protocol import Text

_ENDS = ("start_positions", "end_positions")


def solve(model: Any, seen: Observation) -> Recovery:
    """The closed form for a LayoutLM's gradient.

    Raises:
        NotAuditableError: Another family.
        AuditError: The gradient holds nothing of the embeddings.
    """
    if not model.family.startswith("layoutlm"):
        raise NotAuditableError(
            f"a {model.family} has no absolute positions in its encoder, which the closed form needs",
            "Use --method lbfgs or --method gi-dqa",
        )
    rows = int(model.config.network.vocab_size)
    goes_on = torch.tensor(model.inputs.tokenizer.goes_on(rows))
    settings = model.sight if model.config.sees else None
    return recover(seen.gradient, model.config.network, settings, blank(seen), goes_on)


def blank(seen: Observation) -> Tensor:
    """The template, float (3, height, width)."""
    return torch.from_numpy(seen.template.page).permute(2, 0, 1)


def text_of(model: Any, seen: Observation, got: Recovery) -> Text:
    """What the closed form says, as the network takes it; what it leaves open is padding.

    Where the answer begins and ends is in no embedding. The head's gradient holds it: with p the probabilities of the
    positions and a what the head's last layer was given, its row is sum(p a) - a[place], halved, for the loss is the
    mean of two.

    Raises:
        NotAuditableError: No token came back, or the head's gradient was not shared.
    """
    if not len(got.tokens):
        raise NotAuditableError("no token came back in closed form", "Tell them with --known both")
    fill = int(model.config.network.pad_token_id)
    text = {
        "input_ids": torch.where(got.tokens < 0, fill, got.tokens),
        "bbox": got.boxes.clamp(0, 1000),
        "token_type_ids": got.types.clamp(min=0),
        "attention_mask": torch.ones_like(got.tokens),
    } | dict.fromkeys(_ENDS, torch.tensor(0))
    head = getattr(model.network.qa_outputs, "out_proj", model.network.qa_outputs)
    row = next(name for name, own in model.network.named_parameters() if own is head.weight)
    if row not in seen.gradient:
        raise NotAuditableError(f"without the gradient of {row} nobody can tell where the answer stands",
                                "Share it, or tell the answer with --known both")  # fmt: skip
    held: list[Tensor] = []
    handle = head.register_forward_hook(lambda _, given, out: held.extend((given[0][0], out[0])))
    with torch.no_grad():
        model.loss((blank(seen) if got.pixels is None else got.pixels)[None], [text])
    handle.remove()
    inputs, logits = held
    expected = logits.softmax(dim=0).t() @ inputs - 2 * seen.gradient[row]
    apart = torch.cdist(expected, inputs[: len(got.tokens)])
    return text | dict(zip(_ENDS, apart.argmin(dim=1), strict=True))
