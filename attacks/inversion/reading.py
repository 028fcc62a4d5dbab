"""OCR engines that read reconstructions.

The paper reads with TrOCR (GI-DQA, section 4.1). Every engine here reads pictures of one line each, since it is the
scorer who knows where the lines are, and none of them is asked to look for them in noise.
"""

from __future__ import annotations

import csv
import io
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.auto.folder import check_settings
from pfl_audit.models.rapid_ocr import open_rapidocr
from pfl_audit.models.settings import LARGEST_SIZE, nested
from pfl_audit.models.weights import read_config, read_settings, tensor_names
from pfl_audit.version import __version__

Pixels = NDArray[np.uint8]

LINE_HEIGHT = 64
"""Pixels that a line is enlarged to, by a whole factor, before it is read."""
_TESSERACT_SECONDS = 60
_TROCR_SETTINGS = ("config.json", "generation_config.json", "preprocessor_config.json")


@dataclass(frozen=True)
class Word:
    """A word that an engine reads.

    Attributes:
        text: Without blanks; never empty.
        confidence: Of the engine, 0 to 1; that of its line where it has none for a word, and 1 where it has none.
    """

    text: str
    confidence: float


class ReadingEngine(Protocol):
    """OCR engine for single lines."""

    @property
    def name(self) -> str:
        """Name of the engine with its version."""
        ...

    def read(self, images: Sequence[Pixels]) -> list[list[Word]]:
        """Read pictures of one line each.

        Args:
            images: uint8 (height, width, 3), RGB.

        Returns:
            For each its words from left to right.
        """
        ...


class RapidOcr:
    """rapidocr's recogniser, with the weights that come in its package.

    Raises:
        UsageError: It is not installed.
    """

    def __init__(self) -> None:
        # Its own threshold leaves out what it is unsure of; here a doubtful reading is a reading.
        self._engine = open_rapidocr(text_score=0.0)
        self.name = f"rapidocr {version('rapidocr')}"

    def read(self, images: Sequence[Pixels]) -> list[list[Word]]:
        """Recognise each line, without detecting it first."""
        return [self._line(enlarge(image)) for image in images]

    def _line(self, image: Pixels) -> list[Word]:
        bgr = np.ascontiguousarray(image[:, :, ::-1])
        found = self._engine(bgr, use_det=False, use_cls=False)
        lines = zip(found.txts or (), found.scores or (), strict=True)
        return [Word(word, float(score)) for text, score in lines for word in text.split()]


class Tesseract:
    """The ``tesseract`` program, if there is one.

    Raises:
        UsageError: It is not on the path, or does not start.
    """

    def __init__(self) -> None:
        program = shutil.which("tesseract")
        if program is None:
            raise UsageError("there is no program called tesseract", "Install it, or read with rapidocr")
        self._program = program
        self.name = " ".join(self._run(["--version"]).split()[:2])

    def read(self, images: Sequence[Pixels]) -> list[list[Word]]:
        """Recognise each picture as one line of text."""
        return [self._line(enlarge(image)) for image in images]

    def _line(self, image: Pixels) -> list[Word]:
        picture = io.BytesIO()
        Image.fromarray(image).save(picture, "PNG")
        table = self._run(["stdin", "stdout", "--psm", "7", "tsv"], picture.getvalue())
        rows = csv.DictReader(io.StringIO(table), delimiter="\t", quoting=csv.QUOTE_NONE)
        return [
            Word(word, min(1.0, max(0.0, float(row.get("conf") or 0) / 100)))
            for row in rows
            for word in (row.get("text") or "").split()
        ]

    def _run(self, arguments: list[str], given: bytes = b"") -> str:
        try:
            done = subprocess.run(  # noqa: S603 - the program is the user's own, its arguments are ours
                [self._program, *arguments], input=given, capture_output=True, check=True, timeout=_TESSERACT_SECONDS
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise UsageError("tesseract does not run", "Check that 'tesseract --version' does") from error
        return (done.stdout or done.stderr).decode(errors="replace")


class TrOcr:
    """TrOCR (Li et al., AAAI 2023) from a folder that the user has; nothing is downloaded, and no code of it is run.

    Args:
        folder: With ``config.json``, ``model.safetensors``, the tokenizer and the image processor.

    Raises:
        UsageError: There is no such folder.
        AuditError: The folder lacks one of them, or one cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.name = f"trocr {folder.name}"
        # Our own readers first, which have limits: transformers allocates what a configuration promises.
        tensor_names(folder)
        for name in _TROCR_SETTINGS:
            _refuse_large_numbers(folder / name)
        check_settings(folder, read_config(folder))
        try:
            from transformers import AutoImageProcessor, AutoTokenizer, VisionEncoderDecoderModel

            local = {"local_files_only": True, "trust_remote_code": False}
            self._processor = AutoImageProcessor.from_pretrained(folder, **local)
            self._tokenizer = AutoTokenizer.from_pretrained(folder, **local)
            model = VisionEncoderDecoderModel.from_pretrained(folder, use_safetensors=True, local_files_only=True)
        except Exception as error:  # transformers raises many kinds
            raise AuditError(
                f"{folder} is no TrOCR checkpoint that can be read ({type(error).__name__})",
                "Name a folder with config.json, model.safetensors, its tokenizer and its image processor",
            ) from error
        self._model = model.eval()

    def read(self, images: Sequence[Pixels]) -> list[list[Word]]:
        """Generate the text of each line, greedily; a line's confidence is not given."""
        import torch

        read = []
        with torch.no_grad():
            for image in images:
                pixels = self._processor(Image.fromarray(image), return_tensors="pt").pixel_values
                tokens = self._model.generate(pixels, max_new_tokens=64, num_beams=1, do_sample=False)
                text = self._tokenizer.decode(tokens[0], skip_special_tokens=True)
                read.append([Word(word, 1.0) for word in text.split()])
        return read


@dataclass(frozen=True)
class ReadingOpening:
    """Opening of an engine.

    Attributes:
        engine: Name that ``open_engine`` takes; likewise ``weights``.
        said: Name and version that the opened engine says.
        version: Version of pfl-audit.
    """

    engine: str
    weights: Path | None
    said: str
    version: str = __version__

    def open(self) -> ReadingEngine:
        """Open it, and refuse a model that has changed since."""
        opened = open_engine(self.engine, self.weights)
        if opened.name != self.said:
            raise AuditError(f"the OCR engine {self.said:.60} has changed since it was opened", "Repeat the command")
        return opened


def _refuse_large_numbers(path: Path) -> None:
    """Check that a settings file asks for no layer, table or list of labels beyond LARGEST_SIZE.

    Raises:
        AuditError: It does, or cannot be read.
    """
    for _, _, value in nested(read_settings(path)):
        if isinstance(value, int | float) and abs(value) > LARGEST_SIZE:
            raise AuditError(f"{path} holds a number that is too large", "Get it from the checkpoint's source again")


def open_engine(name: str = "rapidocr", weights: Path | None = None) -> ReadingEngine:
    """Open an engine by its name.

    Args:
        name: One of ENGINES, or ``trocr``.
        weights: The folder of TrOCR's checkpoint.

    Raises:
        UsageError: There is no such engine, weights are missing, or given to an engine that takes none.
        AuditError: The weights cannot be read.
    """
    if weights is not None and name != "trocr":
        raise UsageError(f"the OCR engine {name[:40]!r} takes no weights", "Add --ocr trocr, or leave them out")
    if name == "trocr":
        if weights is None:
            raise UsageError("TrOCR comes without weights", "Name the folder that holds its checkpoint")
        return TrOcr(weights)
    if name not in ENGINES:
        raise UsageError(f"there is no OCR engine {name[:40]!r}", f"Choose one of {', '.join((*ENGINES, 'trocr'))}")
    return ENGINES[name]()


ENGINES: dict[str, Callable[[], ReadingEngine]] = {"rapidocr": RapidOcr, "tesseract": Tesseract}
"""Engines that need no further files."""


def enlarge(image: Pixels) -> Pixels:
    """Enlarge a low picture by the least integer factor that makes it LINE_HEIGHT high; others stay as they are."""
    height, width = image.shape[:2]
    factor = -(-LINE_HEIGHT // height)
    if factor <= 1:
        return image
    larger = Image.fromarray(image).resize((width * factor, height * factor), Image.Resampling.BICUBIC)
    return np.array(larger, dtype=np.uint8)
