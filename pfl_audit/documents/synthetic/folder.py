"""A folder of synthetic invoices as PDF files, half of them scanned, and a table of their labels."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from PIL import Image

from pfl_audit.documents.synthetic.generator import Recipe, companies_of
from pfl_audit.documents.synthetic.invoice import draw_invoice
from pfl_audit.documents.synthetic.pdf_canvas import PdfCanvas
from pfl_audit.documents.synthetic.render import draw_on
from pfl_audit.errors import UsageError
from pfl_audit.files import atomic_write, write_text
from pfl_audit.filled_folder import whole_or_nothing
from pfl_audit.progress import Progress

COMPANIES: Final = Recipe(members=120, non_members=120, seed=7, wordings="broadcast")
"""Companies of the embedded fine-tuned model: it was trained on the members."""
_KEYS: Final = (
    "provider_name", "provider_email", "provider_phone", "provider_address", "provider_website", "tax_number",
    "registration_id", "invoice_number", "invoice_date", "due_date", "customer_name", "total_amount",
)  # fmt: skip
_DPI = 150
_TURN = 0.6
"""Largest angle of a scan in degrees."""
_NOISE = 6.0
"""Standard deviation of the noise of a scan, of 255."""


@dataclass(frozen=True)
class FolderRecipe:
    """Settings of a folder.

    Attributes:
        providers: Companies of each class.
        documents: Documents of each company; every second one is scanned.
        seed: Seed of the documents.
    """

    providers: int = 20
    documents: int = 2
    seed: int = 0


def make_folder_of_documents(recipe: FolderRecipe, folder: Path, progress: Progress) -> int:
    """Draw new invoices of members and non-members of the embedded model. The same recipe gives the same bytes.

    Returns:
        Number of documents.

    Raises:
        UsageError: There are not that many companies, the folder is not empty, or a package is missing.
    """
    if recipe.providers > COMPANIES.members:
        raise UsageError(f"there are {COMPANIES.members} companies of each class", "Lower --providers")
    companies = companies_of(COMPANIES)
    chosen = [(company, "member") for company in companies[: recipe.providers]]
    others = companies[COMPANIES.members : COMPANIES.members + recipe.providers]
    chosen += [(company, "non_member") for company in others]
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(["file", "provider", "member", *_KEYS])
    total = len(chosen) * recipe.documents
    seeds = np.random.SeedSequence([recipe.seed, total]).spawn(total)
    with whole_or_nothing(folder), progress.task("documents", total) as task:
        for at in range(total):
            (company, label), rng = chosen[at // recipe.documents], np.random.default_rng(seeds[at])
            invoice = draw_invoice(company, rng)
            canvas = PdfCanvas()
            draw_on(canvas, invoice)
            scanned = at % 2 == 1
            name = f"{'scans' if scanned else 'pdf'}/invoice-{at + 1:04d}.pdf"
            with atomic_write(folder / name, private=False) as file:
                file.write(_scan(canvas.pdf(), rng) if scanned else canvas.pdf())
            rows.writerow([name, company.name, label, *(invoice.values.get(key, "") for key in _KEYS)])
            task.advance()
        write_text(folder / "labels.csv", table.getvalue(), private=False)
    return total


def _scan(pdf: bytes, rng: np.random.Generator) -> bytes:
    """The page as a scanner gives it: a little turned, with noise, without a text layer."""
    try:
        import pypdfium2
    except ImportError as error:
        raise UsageError("drawing scans needs pypdfium2", "Run: pip install 'pfl-audit[documents]'") from error
    page = pypdfium2.PdfDocument(pdf)[0].render(scale=_DPI / 72).to_pil().convert("RGB")
    turned = page.rotate(rng.uniform(-_TURN, _TURN), Image.Resampling.BICUBIC, fillcolor=(255, 255, 255))
    pixels = np.asarray(turned, dtype=np.float32) + rng.normal(0, _NOISE, (turned.height, turned.width, 1))
    scan, out = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)), io.BytesIO()
    scan.save(out, "PDF", resolution=_DPI, creationDate=None, modDate=None)
    return out.getvalue()
