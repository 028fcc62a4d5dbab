"""What opening and writing a checkpoint folder has in common in all families."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.files import atomic_write, write_json
from pfl_audit.inputs import is_there, read_bytes
from pfl_audit.models.sentencepiece_file import LARGEST_TOKENIZER

TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "spiece.model", "sentencepiece.bpe.model",
    "vocab.txt", "vocab.json", "merges.txt",
)  # fmt: skip


def require_rows(folder: Path, pieces: int, rows: int) -> None:
    """Check that an embedding has a row for every piece of the tokenizer.

    Raises:
        AuditError: It has fewer.
    """
    if pieces > rows:
        raise AuditError(
            f"{folder}: the tokenizer has {pieces} pieces, the embedding only {rows} rows",
            "Copy the tokenizer that the model was trained with",
        )


def write_checkpoint(
    folder: Path,
    records: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    source: Path | None = None,
    copied: Collection[str] = TOKENIZER_FILES,
    dtype: torch.dtype = torch.float32,
    statistics: Collection[str] = (),
    edit: Callable[[str, bytes], bytes] | None = None,
) -> None:
    """Write a checkpoint folder; the weights come last and atomically.

    Args:
        records: JSON files to write, name to content.
        tensors: The weights, under the names of the file.
        source: Folder whose files are copied along.
        copied: Names of the files to copy, where they are there.
        dtype: Type of the floating-point tensors in the file.
        statistics: Names of the tensors that keep their type.
        edit: Maps name and content of a copied file to what is written; files that are in place are edited as well.

    Raises:
        AuditError: A file to copy is no regular file, or too large.
    """
    if source is not None and (edit is not None or source.resolve() != folder.resolve()):
        for name in copied:
            if is_there(source / name):
                content = read_bytes(source / name, limit=LARGEST_TOKENIZER)
                content = content if edit is None else edit(name, content)
                with atomic_write(folder / name) as file:
                    file.write(content)
    for name, record in records.items():
        write_json(folder / name, record)
    saved = {
        name: tensor.detach()
        .to("cpu", dtype if tensor.is_floating_point() and name not in statistics else tensor.dtype)
        .contiguous()
        for name, tensor in tensors.items()
    }
    with atomic_write(folder / "model.safetensors") as file:
        file.write(safetensors.torch.save(saved, metadata={"format": "pt"}))
