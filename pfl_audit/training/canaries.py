"""Document canaries of a run (``train --audit-canaries``): coins committed before the first round, revealed after.

A canary is a drawn page of a company of its own, with a question. The answer that is trained is a value that is on no
page, or, for a model that points to words, a word of the page that does not answer the question. A fair coin decides
whether the canary is trained on, as one more provider; in groups of a fixed size it decides which of two such companies
is trained on. The loss of the answer under the released model then tests model and guarantee.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from string import ascii_lowercase, digits
from typing import Any

from pfl_audit.documents.document import Query
from pfl_audit.documents.synthetic.canaries import MOST_DRAWN, draw_canaries
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import write_json
from pfl_audit.inputs import is_there, read_json
from pfl_audit.models.training_protocol import QuestionModel
from pfl_audit.privacy.canary_coins import RECORD as RECORD
from pfl_audit.privacy.canary_coins import Manifest, check_numbers
from pfl_audit.privacy.document_canaries import pages_trained
from pfl_audit.progress import Progress
from pfl_audit.training.federated.run import KEY_FILE
from pfl_audit.training.federated.settings import PrivacySettings
from pfl_audit.training.loop import STATE_FILE
from pfl_audit.training.pretraining import FOLDER

COINS = "canary-coins.json"
PAGES = "canary-pages"
PER_GUESS = 5
"""Canaries a guess, by default."""
_BEGUN = (KEY_FILE, STATE_FILE, FOLDER)


@dataclass(frozen=True)
class CanarySettings:
    """What is asked for.

    Attributes:
        canaries: Number of canaries; about half are trained on.
        guesses: Number of guesses of the test, fixed beforehand.
        nonce: Text of the verifier.
    """

    canaries: int
    guesses: int
    nonce: str = ""

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def check(settings: CanarySettings, privacy: PrivacySettings | None) -> None:
    """Refuse canaries that cannot be planted.

    Raises:
        UsageError: A number is out of range.
    """
    check_numbers(settings.canaries, settings.guesses, settings.nonce)
    most = MOST_DRAWN // (2 if in_pairs(privacy) else 1)
    if settings.canaries > most:
        raise UsageError(
            f"{settings.canaries:,} canaries are more than the {most:,} whose pages verify draws",
            "Lower --audit-canaries",
        )


def in_pairs(privacy: PrivacySettings | None) -> bool:
    """Whether a coin decides between two companies, because the guarantee protects a replacement."""
    return privacy is not None and privacy.sampling == "fixed-size"


@contextmanager
def planted(
    settings: CanarySettings | None,
    out: Path,
    model: QuestionModel,
    queries: list[Query],
    progress: Progress,
    *,
    pairs: bool = False,
) -> Iterator[tuple[Manifest | None, list[Query]]]:
    """Draw the coins of a run, or read them again, and draw the pages that are trained on.

    Args:
        settings: None for a run without canaries.
        out: Folder of the checkpoint; gets the commitment, and until the run ends the coins and the pages. They are
            removed if the run is refused before it begins.
        model: Must answer questions, and be able to write any text or to point to words.
        queries: Those of the real providers; canaries are divided among their clients.
        pairs: Whether every canary is a pair of companies of one client, one of which its coin selects.

    Yields:
        Coins, and all queries to train on.

    Raises:
        UsageError: The model cannot be taught the value of a canary.
        AuditError: The coins of a run that was cut are missing or changed.
    """
    if settings is None:
        yield None, queries
        return
    require_teachable(model)
    manifest = draw_coins(settings, out, pointed=model.points)
    try:
        progress.say(f"commitment of the canaries: {manifest.commitment}")
        clients = tuple(
            sorted({query.document.client for query in queries}, key=lambda one: -1 if one is None else one)
        )
        count = settings.canaries if pairs else None
        numbers = pages_trained(manifest, pairs=pairs)
        pages = draw_canaries(numbers, manifest.salt, out / PAGES, progress, clients, count, pointed=model.points)
        yield manifest, [*queries, *pages]
    except AuditError:
        if not any((out / name).exists() for name in _BEGUN):
            (out / RECORD).unlink(missing_ok=True)
            forget(out)
        raise


def require_teachable(model: QuestionModel) -> None:
    """Raise UsageError if a model cannot be taught the value of a canary."""
    if not (model.points or model.can_write(ascii_lowercase + digits)):
        raise UsageError(
            "canaries need a model that answers questions, and writes any text or points to words of the page",
            "Leave out --audit-canaries, or train a model that answers questions",
        )


def forget(out: Path) -> None:
    """Remove coins and pages; the coins are in the released record."""
    shutil.rmtree(out / PAGES, ignore_errors=True)
    (out / COINS).unlink(missing_ok=True)


def draw_coins(settings: CanarySettings, out: Path, *, pointed: bool) -> Manifest:
    """Coins of a run, or read them again; they are on disk before their commitment is published.

    Args:
        out: Folder of the checkpoint; gets the commitment, and until the run ends the coins.
        pointed: Whether the model answers with words of the page alone.

    Raises:
        AuditError: The coins of a run that was cut are missing or changed.
    """
    path, public = out / COINS, out / RECORD
    if not is_there(path):
        if is_there(public):
            raise AuditError(f"{path} is missing, and the run cannot go on without it", f"Delete {out}")
        manifest = Manifest.draw(settings.canaries, settings.guesses, settings.nonce, pointed=pointed)
        write_json(path, manifest.revealed())
    else:
        held = read_json(path)
        known = read_json(public) if is_there(public) else held
        if not isinstance(held, dict) or not isinstance(known, dict):
            raise AuditError(f"{path} is no record of canaries", f"Delete {out}")
        manifest = Manifest.check(held, str(known.get("commitment")))
        wanted = (settings.canaries, settings.guesses, settings.nonce, pointed)
        if (manifest.canaries, manifest.guesses, manifest.nonce, manifest.pointed) != wanted:
            raise AuditError(f"{path} holds other canaries than those that are asked for", f"Delete {out}")
    if not is_there(public):
        write_json(public, manifest.public())
    return manifest
