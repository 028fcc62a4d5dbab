"""Opens configuration, tokenizer and processor of a folder in a child process, before this process does."""

from __future__ import annotations

import os
from datetime import date
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError
from pfl_audit.models.auto.folder import stored_elements
from pfl_audit.models.auto.kinds import kind_of
from pfl_audit.models.tagger.kinds import tagger_kind
from pfl_audit.models.weights import read_config
from pfl_audit.sandbox import RefusedError, SandboxError, call_sandboxed

_MEMORY = 4 << 30
"""Address space in bytes; torch and transformers take 0.9 GB of it."""
_SECONDS = 25
"""CPU seconds; the imports take 3, a tokenizer of 256,000 pieces 2."""
_MOST_UNSTORED = 4
"""Largest ratio of the network's elements to the stored ones; tied embeddings are stored once."""
_PIECES = 64
"""Most tokens that a letter of the sample may become."""
_SAMPLE = "Invoice No. 4711 of 2024-05-31: EUR 1,234.56 (VAT 19 %)\tÄpfel & Söhne GmbH " * 8


class _Clock:
    """Clock of chat templates, stopped at the default of Llama 3.1, so that prompts of different days are equal."""

    @staticmethod
    def now() -> date:
        """The date that a template gets for today's."""
        return date(2024, 7, 26)


def examine(folder: Path) -> dict[str, Any]:
    """Open a folder in a child process with limits of memory and time.

    Returns:
        "turn": The chat template around TURN, or None. "attention": "sdpa" or "eager", which the network can compute.

    Raises:
        AuditError: It cannot be opened within the limits, or a link in it leads elsewhere.
    """
    files = _readable(folder)
    try:
        found = call_sandboxed(
            f"{__name__}:look", str(folder.absolute()), memory=_MEMORY, seconds=_SECONDS, readable=files
        )
        match found:
            case {"turn": None | str() as turn, "attention": "sdpa" | "eager" as attention}:
                return {"turn": turn, "attention": attention}
        raise SandboxError("ended")
    except SandboxError as error:
        reason = error.reason(
            f"transformers fails on it ({error.text or 'the process crashed'})",
            f"it takes more than {_MEMORY >> 30} GiB",
            f"it takes more than {_SECONDS} s",
        )
        raise AuditError(
            f"{folder}: configuration, tokenizer or processor cannot be opened: {reason}",
            "Save the model and its processor again with save_pretrained of the installed transformers",
        ) from error


def _readable(folder: Path) -> list[Path]:
    """The folder, and the files of the cache of Hugging Face that its links lead to.

    Raises:
        AuditError: A link leads elsewhere.
    """
    own = Path(os.path.realpath(folder))  # unlike Path.resolve, no error at a loop
    places = (own, own.parent.with_name("blobs")) if own.parent.name == "snapshots" else (own,)
    files = [own]
    for path in folder.iterdir():
        files.append(Path(os.path.realpath(path)))
        if not any(map(files[-1].is_relative_to, places)):
            raise AuditError(f"{path} is a link that leads out of its folder", "Put a copy of the file in its place")
    return files


def look(name: str) -> dict[str, Any]:
    """The child's side of ``examine``.

    Raises:
        RefusedError: The folder cannot be opened; the message has the reason.
    """
    from transformers.utils import chat_template_utils

    from pfl_audit.models.auto.processor import open_config, open_processor, render_turn

    chat_template_utils.datetime = _Clock  # of this process, which ends after the call
    folder = Path(name)
    said = read_config(folder)
    kind = kind_of(said) or tagger_kind(said)
    if kind is None:
        raise RefusedError("its model type is unknown")
    try:
        config = open_config(folder)
        attention = _attention(kind.auto, config, stored_elements(folder))
        processor = open_processor(folder, kind, config)
        turn = render_turn(processor, kind)
        tokenizer = getattr(processor, "tokenizer", processor)
        tags = kind == tagger_kind(said)
        ids = tokenizer.backend_tokenizer.encode(_SAMPLE).ids if tags else tokenizer(text_target=_SAMPLE)["input_ids"]
        text = tokenizer.decode(ids)
    except (RefusedError, MemoryError, RecursionError):
        raise
    except Exception as error:  # libraries raise any exception on untrusted input
        reason = " ".join(str(error).split())[:200]
        raise RefusedError(f"{type(error).__name__}: {reason}") from error
    if max(len(ids), len(text)) > _PIECES * len(_SAMPLE):
        raise RefusedError("its tokenizer makes too much of a text")
    return {"turn": turn, "attention": attention}


def _attention(auto: str, config: Any, stored: int) -> str:
    """Attention that the network can compute; it is built on the meta device, which takes no memory."""
    import torch
    import transformers

    for attention in ("sdpa", "eager"):
        try:
            with torch.device("meta"):
                network = getattr(transformers, auto).from_config(config, attn_implementation=attention)
            break
        except ValueError:
            if attention == "eager":
                raise
    if sum(parameter.numel() for parameter in network.parameters()) > _MOST_UNSTORED * max(stored, 1):
        raise RefusedError("config.json describes a larger network than the weights have")
    return attention
