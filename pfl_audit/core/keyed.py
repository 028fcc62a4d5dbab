"""Private files of a run: its key and its exact results.

Pseudonyms and digests of shared files are keyed, so that those of one run agree with each other, and with no other
run's. Plain digests are in the exact results.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Final

from pfl_audit.core.evidence import PRIVATE
from pfl_audit.core.results import FILE_NAME as RESULTS
from pfl_audit.core.results import Results, read_results
from pfl_audit.errors import AuditError
from pfl_audit.files import write_text
from pfl_audit.inputs import is_regular, is_there, read_text

FILE: Final = "key"
_LETTERS: Final = 64
"""Of a key of 32 bytes in hexadecimal."""


def run_key(folder: Path) -> bytes:
    """The key of a run; a new one where the folder holds no results yet.

    Args:
        folder: Of the run.

    Raises:
        AuditError: The folder holds results and no key, or what lies in its place is none.
    """
    path = folder / PRIVATE / FILE
    remedy = "Put it back, or name another --out"
    if not is_there(path):
        if is_there(folder / RESULTS):
            raise AuditError(f"{folder} holds results without their private key ({PRIVATE}/{FILE})", remedy)
        write_text(path, secrets.token_hex(_LETTERS // 2) + "\n", private=True)
    text = read_text(path, limit=_LETTERS + 1, remedy=remedy).strip()
    try:
        key = bytes.fromhex(text)
    except ValueError as error:
        raise AuditError(f"{path} is no key of a run", remedy) from error
    if len(text) != _LETTERS:
        raise AuditError(f"{path} is no key of a run", remedy)
    return key


def keyed(key: bytes, text: str) -> str:
    """HMAC-SHA-256 of a text, hexadecimal."""
    return hmac.new(key, text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def exact_of(results: Results, folder: Path) -> Results:
    """The exact results of a run where its private folder has them; else what is given."""
    if results.provenance.smallest_group is None or not is_regular(folder / PRIVATE / RESULTS):
        return results
    found = read_results(folder / PRIVATE)
    return found if found.provenance.started == results.provenance.started else results


def has_digests(results: Results) -> bool:
    """True if digests of documents are plain, so that they can be held against those of another run."""
    return results.provenance.smallest_group is None
