"""What went into a LayoutLM: from the closed form and, for the place of the answer, from the head's gradient."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from pfl_audit.attacks.inversion.analytic.limits import Cause
from pfl_audit.attacks.inversion.analytic.recovery import Recovery, recover
from pfl_audit.attacks.inversion.case import Observation
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.gradient_protocol import Text

MIXED = "question and answer cannot be separated in the gradient of a batch"
TELL = "Give them with --known both; of a captured gradient, give --document, --question and --answer as well"
_ENDS = ("start_positions", "end_positions")


def sees(model: Any) -> bool:
    """Whether the network looks at the page, and not at its words alone."""
    return not model.family.startswith("layoutlm") or bool(model.config.sees)


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
    settings = model.sight if sees(model) else None
    return recover(seen.gradient, model.config.network, settings, blank(seen), goes_on)


def blank(seen: Observation) -> Tensor:
    """The template, float (3, height, width)."""
    return torch.from_numpy(seen.template.page).permute(2, 0, 1)


def hindrance(model: Any, seen: Observation, got: Recovery) -> str | None:
    """Why a search cannot go on from what the closed form recovered, or None."""
    if seen.batch > 1 or any(limit.cause is Cause.MIXED for limit in got.limits):
        return MIXED
    if not len(got.tokens) or bool((got.tokens < 0).all()) or bool((got.boxes < 0).all(dim=0).any()):
        return "the closed form recovered no words, or no boxes"
    row, _ = _head(model)
    if row not in seen.gradient or not seen.gradient[row].any():
        return f"without the gradient of {row} the place of the answer is unknown"
    return None


def text_of(model: Any, seen: Observation, got: Recovery) -> Text:
    """What the closed form says, as the network takes it; what it leaves open is the unknown token.

    Where the answer begins and ends is in no embedding. The head's gradient holds it: with p the probabilities of the
    positions and a what the head's last layer was given, its row points from a[place] to sum(p a).

    Raises:
        NotAuditableError: See ``hindrance``.
    """
    if reason := hindrance(model, seen, got):
        raise NotAuditableError(reason, TELL)
    text = {
        "input_ids": torch.where(got.tokens < 0, model.inputs.tokenizer.unknown, got.tokens),
        "bbox": got.boxes.clamp(0, 1000),
        "token_type_ids": got.types.clamp(min=0),
        "attention_mask": torch.ones_like(got.tokens),
    } | dict.fromkeys(_ENDS, torch.tensor(0))
    row, head = _head(model)
    held: list[Tensor] = []
    page = blank(seen) if got.pixels is None else got.pixels
    with head.register_forward_hook(lambda _, given, out: held.extend((given[0][0], out[0]))), torch.no_grad():
        model.loss(page[None], [text])
    inputs, logits = held
    ways = (logits.softmax(dim=0).t() @ inputs)[:, None] - inputs[None, : len(got.tokens)]
    alike = functional.cosine_similarity(ways, seen.gradient[row][:, None], dim=2)
    return text | dict(zip(_ENDS, alike.argmax(dim=1), strict=True))


def _head(model: Any) -> tuple[str, torch.nn.Module]:
    """The layer that scores positions, and its weight's name."""
    head = getattr(model.network.qa_outputs, "out_proj", model.network.qa_outputs)
    return next(name for name, own in model.network.named_parameters() if own is head.weight), head
