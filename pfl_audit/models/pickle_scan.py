"""What a ``pytorch_model.bin`` would run if it were unpickled, found without running it."""

from __future__ import annotations

import io
import lzma
import pickletools
import struct
import zipfile
import zlib
from pathlib import Path

from pfl_audit.errors import AuditError

# A RuntimeError also where a member is encrypted, or compressed in a way that nobody knows.
_DAMAGE = (
    OSError, ValueError, EOFError, RuntimeError, IndexError,
    struct.error, zlib.error, lzma.LZMAError, zipfile.BadZipFile,
)  # fmt: skip
_MAX_PICKLE = 256 << 20
_MAX_MEMBERS = 100_000

_STORAGES = frozenset(
    f"torch.{kind}Storage"
    for kind in ("Float", "Half", "BFloat16", "Double", "Long", "Int", "Short", "Char", "Byte", "Bool", "Untyped")
)
ALLOWED_GLOBALS = _STORAGES | {
    "collections.OrderedDict",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_parameter",
    "torch.Size",
    "torch.device",
}
"""Globals of a plain state dict. Everything else is refused before anything is unpickled."""


def refuse_code(path: Path) -> None:
    """Check that a checkpoint holds tensors and nothing that runs.

    Args:
        path: A file written by ``torch.save`` in its zip format.

    Raises:
        AuditError: It asks for a global outside ALLOWED_GLOBALS (the message names it), is of the
            old tar or plain pickle format, or is damaged.
    """
    for name in pickle_globals(path):
        if name not in ALLOWED_GLOBALS:
            raise AuditError(
                f"{path} is a pickle that asks for the global '{name}', which is not a tensor; nothing was run",
                "Ask its owner for a safetensors file, and do not open this one with other tools",
            )


def pickle_globals(path: Path) -> list[str]:
    """Names of all globals that a zip-format checkpoint asks for, sorted.

    Raises:
        AuditError: It is of another format, or damaged.
    """
    try:
        with _archive(path) as archive:
            members = archive.infolist()
            pickles = [member for member in members if member.filename.endswith(".pkl")]
            if len(members) > _MAX_MEMBERS or len(pickles) != 1 or pickles[0].file_size > _MAX_PICKLE:
                raise AuditError(f"{path} is no checkpoint of torch.save", "Ask its owner for a safetensors file")
            return sorted(_globals(archive.read(pickles[0])))
    except _DAMAGE as error:
        raise AuditError(f"{path} is damaged: {error}", "Copy it again from its source") from error


def _archive(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except zipfile.BadZipFile as error:
        raise AuditError(
            f"{path} is not in the zip format of torch.save (torch 1.6 or newer)",
            "Save it again with a recent torch, or as safetensors",
        ) from error


def _globals(data: bytes) -> set[str]:
    found: set[str] = set()
    strings: list[str] = []
    for opcode, argument, _ in pickletools.genops(io.BytesIO(data)):
        if opcode.name in ("GLOBAL", "INST"):
            found.add(str(argument).replace(" ", "."))
        elif opcode.name == "STACK_GLOBAL":
            # Its two names were pushed before; where they are not in sight, the name says so.
            found.add(".".join(strings[-2:]) if len(strings) > 1 else "<hidden by STACK_GLOBAL>")
        elif opcode.name in ("EXT1", "EXT2", "EXT4"):
            found.add(f"<extension {argument}>")
        elif isinstance(argument, str) and "UNICODE" in opcode.name:
            strings.append(argument)
        elif opcode.name in ("GET", "BINGET", "LONG_BINGET"):
            strings.append("<memo>")
    return found
