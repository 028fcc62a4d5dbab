"""The added tokens of self-pretraining in a VT5: rows of its embedding, and pieces of its tokenizer."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor, nn

from pfl_audit.errors import AuditError
from pfl_audit.models.confined_pieces import Pieces
from pfl_audit.models.self_pretraining import MARKERS
from pfl_audit.models.vt5.modeling import Vt5

_CONTROL: Final = 3
"""Type of a SentencePiece piece that no text is encoded to, and that decodes to nothing."""


def add_markers(network: Vt5) -> int:
    """Grow the embedding by a row for each of MARKERS, and the output layer where it is a tensor of its own.

    The rows are drawn from the mean and deviation of each column, always the same for the same weights.

    Returns:
        Number of the first of the tokens; the network is left alone where it has them already.
    """
    if network.config.markers is not None:
        return network.config.markers
    backbone, text = network.language_backbone, network.config.text
    shared, head, first = backbone.shared, backbone.lm_head, int(text.vocab_size)
    tied = head.weight.data_ptr() == shared.weight.data_ptr()
    shared.weight = nn.Parameter(_grown(shared.weight.detach()))
    head.weight = shared.weight if tied else nn.Parameter(_grown(head.weight.detach()))
    backbone.set_input_embeddings(shared)
    text.vocab_size = backbone.config.vocab_size = shared.num_embeddings = head.out_features = len(shared.weight)
    network.config = replace(network.config, markers=first)
    return first


def with_markers(name: str, content: bytes, first: int) -> bytes:
    """A tokenizer file with MARKERS from the number ``first`` on, and unused pieces up to there.

    Args:
        name: Name of the file; other files than ``spiece.model`` and ``tokenizer.json`` are returned as they are.
        content: Content of the file; one that has them already is returned as it is.

    Raises:
        AuditError: A ``tokenizer.json`` is damaged.
    """
    if name == "spiece.model":
        return content + b"".join(map(_piece, _missing(Pieces("sentencepiece", content, name).size, first)))
    if name == "tokenizer.json":
        try:
            return _fast_with_markers(json.loads(content), first) or content
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise AuditError(f"{name} of the start is damaged", "Copy it again from its source") from error
    return content


def _fast_with_markers(held: dict[str, Any], first: int) -> bytes | None:
    """A ``tokenizer.json`` with the tokens; None where it has them."""
    added = held.get("added_tokens") or []
    size = max([len(held["model"]["vocab"]), *(token["id"] + 1 for token in added)])
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    new = [
        {"id": number, "content": name, "special": True, **flags}
        for number, name in enumerate(_missing(size, first), size)
    ]
    return json.dumps({**held, "added_tokens": [*added, *new]}).encode() if new else None


def _missing(size: int, first: int) -> list[str]:
    """Names of the pieces that follow the ``size`` pieces of a tokenizer."""
    return [] if size > first else [*(f"<unused_{number}>" for number in range(size, first)), *MARKERS]


def _piece(name: str) -> bytes:
    """Field 1 of SentencePiece's ModelProto: the name, score 0, and the type."""
    text = name.encode()
    body = b"\x0a" + bytes([len(text)]) + text + b"\x15\0\0\0\0" + b"\x18" + bytes([_CONTROL])
    return b"\x0a" + bytes([len(body)]) + body


def _grown(table: Tensor) -> Tensor:
    drawn = torch.randn((len(MARKERS), table.shape[1]), generator=torch.Generator().manual_seed(0))
    rows = table.mean(dim=0) + table.std(dim=0) * drawn.to(table)
    return torch.cat([table, rows.to(table.dtype)])
