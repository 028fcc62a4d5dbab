"""Document canaries: drawn pages of companies that exist nowhere else, each with a question for a random value.

The value is on no page. For a model that points to words it is a word of the page that does not answer the question.
Either way a model can know it from training alone.
"""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.keys import draw_question
from pfl_audit.documents.synthetic.generator import JPEG_QUALITY
from pfl_audit.documents.synthetic.invoice import draw_invoice
from pfl_audit.documents.synthetic.providers import draw_providers
from pfl_audit.documents.synthetic.render import render_invoice
from pfl_audit.errors import AuditError
from pfl_audit.files import atomic_write
from pfl_audit.progress import Progress

KEY = "registration_id"
"""Key that is asked for: two letters and six digits."""
SPLIT = "canary_train"
MOST_DRAWN: Final = 100_000
"""Canaries whose pages are drawn, 20 kB and 25 ms each; a checkpoint that names more may come from anywhere."""
_REMEDY = "Plant fewer, or check where the checkpoint comes from"


def draw_canaries(
    numbers: Iterable[int],
    salt: str,
    folder: Path,
    progress: Progress,
    clients: tuple[int | None, ...] = (None,),
    pairs: int | None = None,
    *,
    pointed: bool = False,
) -> list[Query]:
    """Draw canaries: a company, one page, one question each. The same salt gives the same pages.

    Args:
        numbers: Numbers of the canaries to draw; a canary does not depend on which others are drawn.
        salt: Hexadecimal; decides pages and values.
        folder: Folder of the page images; those of the same salt that are there already are kept.
        progress: Reports the pages.
        clients: Clients that canaries are assigned to in turn.
        pairs: Number of canaries that come in pairs: number ``pairs + i`` has the client of ``i``. None without pairs.
        pointed: Whether the value is a word of the page, drawn among those that are there once.

    Raises:
        AuditError: There are more than MOST_DRAWN.
    """
    wanted = list(numbers)
    if len(wanted) > MOST_DRAWN:
        raise AuditError(f"{len(wanted):,} canaries are more than the {MOST_DRAWN:,} whose pages are drawn", _REMEDY)
    with progress.task("pages of canaries", len(wanted)) as task:
        queries = []
        for number in wanted:
            place = number % pairs if pairs else number
            queries.append(_draw(number, salt, folder, clients[place % len(clients)], pointed=pointed))
            task.advance(1)
    return queries


def canary_company(number: int, salt: str) -> str:
    """Name of the company of a canary."""
    return f"canary {number} of {salt}"


def _draw(number: int, salt: str, folder: Path, client: int | None, *, pointed: bool) -> Query:
    rng = np.random.default_rng(np.random.SeedSequence([int(salt, 16), number]))
    provider = draw_providers(1, rng)[0]
    invoice = draw_invoice(provider, rng)
    invoice = replace(invoice, values={key: value for key, value in invoice.values.items() if key != KEY})
    canvas = render_invoice(invoice)
    path = folder / f"{hashlib.sha256(salt.encode()).hexdigest()[:16]}-{number}.jpg"
    if not path.is_file():
        picture = io.BytesIO()
        canvas.page.save(picture, "JPEG", quality=JPEG_QUALITY, optimize=True)
        with atomic_write(path) as file:
            file.write(picture.getvalue())
    page = f"canary{number}_1"
    document = Document(
        page, canary_company(number, salt), tuple(canvas.words), canvas.boxes(), PageImage(path), SPLIT, client
    )
    question, answer = draw_question(KEY, rng), provider.registration_id.lower()
    if pointed:
        counts = Counter(word.lower() for word in canvas.words)
        answer = str(rng.choice([word for word, count in counts.items() if count == 1]))
    return Query(f"{page}-0", document, question, (answer,), KEY)
