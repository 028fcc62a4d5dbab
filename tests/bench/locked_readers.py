"""Times of what reads foreign files in a child: checkpoints, pages of a corpus, documents.

``PYTHONPATH=CHECKOUT python -P tests/bench/locked_readers.py [CHECKPOINT]`` prints a row a reader of the source in
CHECKOUT, the best of five repetitions each; with a CHECKPOINT the time to open it, too.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from reportlab.pdfgen import canvas

import pfl_audit
from pfl_audit.documents.images import PageImage
from pfl_audit.importing.pages import SourceFile
from pfl_audit.importing.reading import ReadingSettings, read_documents
from pfl_audit.models.open import open_model
from pfl_audit.progress import Silent

_REPETITIONS, _PICTURES, _PAGES = 5, 6, 10
_HEIGHT, _WIDTH = 2200, 1700


def best(action: Callable[[], object]) -> float:
    """Seconds of the fastest repetition, after one that is not counted."""
    action()
    times = []
    for _ in range(_REPETITIONS):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)


def pictures(folder: Path) -> list[Path]:
    """JPEG files of pages with lines of noise."""
    rng = np.random.default_rng(0)
    paths = [folder / f"{number}.jpg" for number in range(_PICTURES)]
    for path in paths:
        page = np.full((_HEIGHT, _WIDTH, 3), 255, dtype=np.uint8)
        page[100:2000:40, 100:1500] = rng.integers(0, 255, (48, 1400, 3), dtype=np.uint8)
        Image.fromarray(page).save(path, quality=92)
    return paths


def document(path: Path) -> Path:
    """A PDF file with text layers."""
    drawn = canvas.Canvas(str(path))
    for _ in range(_PAGES):
        for low in range(50, 800, 14):
            drawn.drawString(40, low, "Invoice number 4711 total due 12.50 EUR Muster GmbH")
        drawn.showPage()
    drawn.save()
    return path


def imported(*paths: Path) -> None:
    """Import documents without OCR, by one process, into a new folder."""
    files = [SourceFile(path, path.name) for path in paths]
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        read_documents(files, out, out / "cache", ReadingSettings(ocr="never", processes=1), Silent())


def main() -> None:
    """Measure, and print."""
    embedded = Path(pfl_audit.__file__).parents[1] / "fixtures/vt5-finetuned"
    rows = [("open an embedded VT5 again in a process, s", best(lambda: open_model(str(embedded))))]
    rows += [(f"open {name}, s", best(lambda name=name: open_model(name))) for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as name:
        pages = pictures(Path(name))
        decoded = best(lambda: [PageImage(path).open() for path in pages])
        rows.append((f"decode a page of {_HEIGHT * _WIDTH / 1e6:.1f} million pixels, JPEG, s", decoded / _PICTURES))
        rows.append(("import of pictures without OCR, pages/s", _PICTURES / best(lambda: imported(*pages))))
        text = document(Path(name) / "text.pdf")
        rows.append(("import of a PDF with text layers, pages/s", _PAGES / best(lambda: imported(text))))
    for what, value in rows:
        print(f"| {what} | {value:.2f} |")


if __name__ == "__main__":
    main()
