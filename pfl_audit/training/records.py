"""Records of a private run: ``training.json``, to be released, and the private record beside the checkpoint.

What was counted or measured on private data without noise is in the private record alone: ``NAME.private.json``, beside
the folder NAME of the checkpoint and readable by its owner only, so that a copy of the folder holds nothing of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import sha256_json, write_json
from pfl_audit.inputs import is_there, read_json

RECORD = "training.json"
_SALT_BYTES = 32
_PUBLIC = (
    "mode", "engine", "secure_aggregation", "quorum", "data", "privacy", "rounds", "clients", "communication",
    "lora", "canaries", "identity", "version", "packages",
)  # fmt: skip
_PUBLIC_DATA = ("commitment", "commitments", "before")
_PRIVATE_IDENTITY = ("data", "places", "partition")


def private_path(out: Path) -> Path:
    """The private record of the checkpoint in a folder."""
    place = out.resolve()
    return place.with_name(f"{place.name}.private.json")


def public_part(record: Mapping[str, Any]) -> dict[str, Any]:
    """What of a private run's record is released: nothing that depends on the documents without noise."""
    found = {name: record[name] for name in _PUBLIC if name in record}
    found["data"] = {name: record["data"][name] for name in _PUBLIC_DATA if name in record["data"]}
    found["identity"] = {name: value for name, value in record["identity"].items() if name not in _PRIVATE_IDENTITY}
    return found


def read_record(out: Path) -> dict[str, Any]:
    """The record of a finished run, with its private part where that is there.

    Raises:
        AuditError: A record cannot be read.
    """
    record, path = read_json(out / RECORD), private_path(out)
    if not isinstance(record, dict):
        return {}
    private = _read(path) if is_there(path) else {}
    return private if "privacy" in private and public_part(private) == record else record


def write_private(out: Path, record: Mapping[str, Any]) -> None:
    """Write the private record of a finished run: all that is known of it."""
    write_json(private_path(out), record)


def commit(digest: str) -> dict[str, str]:
    """A new commitment to data: it identifies a run, and who lacks the salt cannot test a guess of the data.

    Args:
        digest: SHA-256 of the data.
    """
    salt = secrets.token_hex(_SALT_BYTES)
    return {"salt": salt, "commitment": commitment(salt, digest)}


def commitment(salt: str, digest: str) -> str:
    """SHA-256 of a salt and the SHA-256 of the data."""
    return sha256_json([salt, digest])


@contextmanager
def begin_record(out: Path, identity: Mapping[str, Any], *, resumed: bool) -> Iterator[dict[str, str]]:
    """Begin the private record before the first round, or read it again; it is removed if the run is refused.

    Args:
        identity: What decides the weights; ``data`` is the SHA-256 of the corpus.
        resumed: Whether the folder holds the state of this run.

    Yields:
        Salt and commitment, the same for a run that continues.

    Raises:
        UsageError: The private record of another run is there.
        AuditError: The file cannot be read or written.
    """
    held = held_record(out, identity, resumed=resumed)
    if held:
        yield {name: str(held["data"][name]) for name in ("salt", "commitment")}
        return
    data = commit(identity["data"])
    write_json(private_path(out), {"data": data, "identity": identity})
    try:
        yield data
    except AuditError:
        private_path(out).unlink(missing_ok=True)
        raise


def held_record(out: Path, identity: Mapping[str, Any], *, resumed: bool) -> dict[str, Any]:
    """The private record of a run that continues, or an empty one for a run that begins.

    Raises:
        UsageError: The private record of another run is there.
        AuditError: The file cannot be read.
    """
    path = private_path(out)
    held = _read(path) if is_there(path) else {}
    if resumed and held.get("identity") == identity:
        return held
    if "privacy" in held:
        raise UsageError(f"{path} is the private record of another run", "Move it away, or name another --out")
    return {}


def _read(path: Path) -> dict[str, Any]:
    held = read_json(path, remedy="Restore it from a copy, or move it away")
    if not (isinstance(held, dict) and isinstance(held.get("data"), dict) and isinstance(held.get("identity"), dict)):
        raise AuditError(f"{path} is no private record", "Restore it from a copy, or move it away")
    return held
