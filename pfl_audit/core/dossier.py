"""Dossier of an audit: report, results, configuration and pictures in one folder, with a manifest of SHA-256 sums.

The manifest has the form that ``sha256sum --check`` reads. It is not signed: whoever can change a file can write a new
manifest, so its own digest has to be kept elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from pfl_audit.core.results import FILE_NAME as RESULTS
from pfl_audit.core.results import Results
from pfl_audit.core.run_folder import LOG
from pfl_audit.errors import AuditError
from pfl_audit.files import atomic_write, require_new, write_text
from pfl_audit.inputs import is_regular, is_there, kind_of, open_input, read_text, sha256_input

MANIFEST: Final = "MANIFEST.sha256"
CONFIGURATION: Final = "configuration.json"
EVIDENCE: Final = "evidence"
_LINE = re.compile(r"([0-9a-f]{64})  ([^\x00-\x1f\x7f\\]{1,300})")
_MOST: Final = 2_000
"""Files of a dossier."""
_LARGEST: Final = 1 << 30
"""Bytes of a file of a dossier."""
_MANIFEST_SIZE: Final = 1 << 20
_COPIED: Final = 1 << 20
_REMEDY: Final = "It is no manifest of pfl-audit; ask for the dossier again"
UNSIGNED: Final = (
    "The manifest is not signed: it shows changes, and is no proof against forgery. Compare its digest with the one "
    "that you were given apart from the dossier (--expect)"
)


@dataclass(frozen=True)
class DossierLine:
    """What is said of one file of a dossier.

    Attributes:
        name: Path in the dossier.
        status: ``contradicted`` where the file is not the one that the manifest states.
        text: Why.
    """

    name: str
    status: Literal["verified", "contradicted", "not checked"]
    text: str


@dataclass(frozen=True)
class VerifiedDossier:
    """Result of a verification.

    Attributes:
        digest: SHA-256 of the manifest.
        lines: One a file, what was changed first.
    """

    digest: str
    lines: tuple[DossierLine, ...]


def is_dossier(folder: Path) -> bool:
    """Whether a folder has a manifest."""
    return is_there(folder / MANIFEST)


def write_dossier(results: Results, run: Path, reports: Sequence[Path], out: Path) -> Path:
    """Copy what an audit wrote for others into a new folder, and write the manifest last.

    Private files of the run, responses among them, stay where they are.

    Args:
        results: Results of the audit.
        run: Folder of the run.
        reports: Reports and exports.
        out: Folder to write, missing or empty.

    Returns:
        Path of the manifest.

    Raises:
        UsageError: The folder is not empty.
        AuditError: A file cannot be read or written.
    """
    require_new(out)
    sources = {path.name: path for path in reports if is_regular(path) and path.name != MANIFEST}
    sources |= {name: run / name for name in (CONFIGURATION, LOG) if is_regular(run / name)}
    sources[RESULTS] = run / RESULTS
    for check in results.checks:
        for shown in check.evidence:
            picture = shown.picture
            if picture and PurePosixPath(picture).parts[:-1] == (EVIDENCE,) and _is_own(run / picture):
                sources[picture] = run / picture
    lines = [f"{_copy(sources[name], out / name)}  {name}" for name in sorted(sources)]
    write_text(out / MANIFEST, "\n".join(lines) + "\n")
    return out / MANIFEST


def verify_dossier(folder: Path, expect: str | None = None) -> VerifiedDossier:
    """Hold every file of a dossier against its manifest.

    Args:
        folder: The dossier.
        expect: SHA-256 of the manifest, as it was given apart from the dossier.

    Raises:
        AuditError: The manifest is malformed, or names a path outside of the dossier, or the folder holds a link or too
            many files.
    """
    stated = _manifest(folder)
    digest = sha256_input(folder / MANIFEST, limit=_MANIFEST_SIZE)
    lines = [_held(folder / name, name, sha) for name, sha in stated.items()]
    lines += [
        DossierLine(name, "contradicted", "the manifest does not list it")
        for name in _files(folder)
        if name not in stated and name != MANIFEST
    ]
    if expect is None:
        lines.append(DossierLine(MANIFEST, "not checked", UNSIGNED))
    elif expect.strip().lower() == digest:
        lines.append(DossierLine(MANIFEST, "verified", "it has the expected digest"))
    else:
        lines.append(DossierLine(MANIFEST, "contradicted", "it does not have the expected digest"))
    order = ("contradicted", "not checked", "verified")
    return VerifiedDossier(digest, tuple(sorted(lines, key=lambda line: (order.index(line.status), line.name))))


def _manifest(folder: Path) -> dict[str, str]:
    """Path to digest, as the manifest states them.

    Raises:
        AuditError: It is malformed; the line is named by its number.
    """
    path = folder / MANIFEST
    if path.is_symlink():
        raise AuditError(f"{path} is a link, which is not followed", _REMEDY)
    stated: dict[str, str] = {}
    lines = read_text(path, limit=_MANIFEST_SIZE, remedy=_REMEDY).split("\n")
    if lines[-1] == "":
        lines.pop()
    if not lines or len(lines) > _MOST:
        raise AuditError(f"{path} lists no file, or more than {_MOST}", _REMEDY)
    for number, line in enumerate(lines, 1):
        found = _LINE.fullmatch(line)
        name = found[2] if found else ""
        parts = name.split("/")
        if found is None or name.startswith("/") or {"", ".", ".."} & set(parts) or name in stated or name == MANIFEST:
            raise AuditError(f"line {number} of {path} is no digest with a path inside the dossier", _REMEDY)
        stated[name] = found[1]
    return stated


def _held(path: Path, name: str, sha: str) -> DossierLine:
    try:
        found = path.lstat()
    except OSError:
        return DossierLine(name, "contradicted", "it is missing")
    if not stat.S_ISREG(found.st_mode):
        return DossierLine(name, "contradicted", f"it is a {kind_of(found.st_mode)}, not a file")
    if sha256_input(path, limit=_LARGEST) != sha:
        return DossierLine(name, "contradicted", "its content has changed")
    return DossierLine(name, "verified", "it is as it was")


def _files(folder: Path) -> Iterator[str]:
    """Paths of everything in a dossier but folders.

    Raises:
        AuditError: There is a link to a folder, or there are too many files.
    """
    count = 0
    for place, below, files in os.walk(folder):
        for name in below:
            if (Path(place) / name).is_symlink():
                raise AuditError(f"{Path(place) / name} is a link, which is not followed", "Delete it")
        for name in files:
            count += 1
            if count > _MOST + 1:
                raise AuditError(f"{folder} holds more than {_MOST} files", "Give the folder of a dossier")
            yield (Path(place) / name).relative_to(folder).as_posix()


def _is_own(path: Path) -> bool:
    return not path.is_symlink() and is_regular(path)


def _copy(source: Path, target: Path) -> str:
    """Copy a file, and return the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    with open_input(source, limit=_LARGEST) as read, atomic_write(target) as file:
        while chunk := read.read(_COPIED):
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()
