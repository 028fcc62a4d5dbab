"""Words and pictures of a folder of documents: several processes, cached page by page."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Literal

from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Boxes, as_boxes
from pfl_audit.documents.image_file import MAX_FILE
from pfl_audit.documents.record_validation import MAX_WORDS, RECORD_ERRORS, words
from pfl_audit.errors import AuditError
from pfl_audit.files import atomic_write, sha256_json, write_text
from pfl_audit.importing.page_child import MAX_PAGES
from pfl_audit.importing.pages import Children, SourceFile, name_problem, new_children
from pfl_audit.inputs import is_regular, open_input, read_bytes, read_json, sha256_input
from pfl_audit.progress import Progress
from pfl_audit.sandbox import SandboxError

Ocr = Literal["auto", "always", "never"]
Words = tuple[list[str], list[list[float]]]
"""Words, and their boxes as shares of the page."""
PICTURE: Final = re.compile(r"[0-9a-f]{32}\.(?:jpg|png)")
"""Name of a picture, by its content."""
_FORMAT = 3
"""Version of what the cache holds."""


@dataclass(frozen=True)
class ReadingSettings:
    """How pages are read.

    Attributes:
        dpi: Resolution at which pages of PDF files are rendered.
        ocr: "auto" where a page has no text layer or is a scan with a stamp, "always", or "never".
        language: Language of the recogniser.
        processes: Documents that are read at the same time.
    """

    dpi: int = 150
    ocr: Ocr = "auto"
    language: str = "en"
    processes: int = os.cpu_count() or 1


@dataclass(frozen=True, eq=False)
class ReadPage:
    """A page that was read.

    Attributes:
        file: Name of its document.
        number: Number of the page, from 1.
        picture: Picture of the page.
        words: Words in reading order.
        boxes: float32 (words, 4), shares of the page.
        by_ocr: Whether words were read by OCR, not taken from a text layer.
        stamped: Whether the page is a scan whose text layer has something else, such as a stamp, alone.
        hidden: Number of hidden words in the text layer, which are left out.
        covered: Number of those of them that are below a bar.
        undrawn: Number of typed annotations that the picture does not show.
    """

    file: str
    number: int
    picture: Path
    words: tuple[str, ...]
    boxes: Boxes
    by_ocr: bool
    stamped: bool = False
    hidden: int = 0
    covered: int = 0
    undrawn: int = 0


def read_documents(
    files: list[SourceFile], folder: Path, cache: Path, settings: ReadingSettings, progress: Progress
) -> tuple[list[ReadPage], list[Problem]]:
    """Read the pages of documents.

    Every page is stored when it is read, its picture in ``folder/images`` and its words in ``cache``: a run that was
    killed reads none of them again.

    Args:
        files: Documents.
        folder: Output folder.
        cache: Folder of the cache.
        settings: How pages are read.
        progress: Reports the pages that are done.

    Returns:
        Pages in the order of ``files``, and documents and pages that cannot be read.
    """
    problems = [Problem(file.name, reason, is_page=True) for file in files if (reason := name_problem(file.name))]
    usable = [file for file in files if not name_problem(file.name)]
    with _workers(settings.processes) as run:
        counts: dict[str, int] = {}
        digests: dict[str, str] = {}
        with progress.task("documents", len(usable)) as task:
            for file, found in run(_look, usable):
                if isinstance(found, str):
                    problems.append(Problem(file.name, found, is_page=True))
                else:
                    counts[file.name], digests[file.name] = found
                task.advance()
        work = [
            _Work(file, page, digests[file.name], folder, cache, settings)
            for file in usable
            for page in range(counts.get(file.name, 0))
        ]
        pages: dict[tuple[str, int], ReadPage] = {}
        with progress.task("pages", len(work)) as task:
            for one, read in run(_read, work):
                if isinstance(read, str):
                    problems.append(Problem(f"{one.file.name} page {one.page + 1}", read, is_page=True))
                else:
                    pages[one.file.name, one.page] = read
                task.advance()
    order = [pages[one.file.name, one.page] for one in work if (one.file.name, one.page) in pages]
    return order, sorted(problems, key=lambda problem: problem.record)


@dataclass(frozen=True)
class _Work:
    file: SourceFile
    page: int
    digest: str
    folder: Path
    cache: Path
    settings: ReadingSettings


@contextmanager
def _workers(count: int) -> Iterator[Any]:
    """Runs a function over items in threads, each with its own child processes; yields results as they come."""
    children = [new_children() for _ in range(count)]
    free: SimpleQueue[Children] = SimpleQueue()
    for one in children:
        free.put(one)
    pool = ThreadPoolExecutor(count)

    def with_children(function: Any, item: Any) -> Any:
        mine = free.get()
        try:
            return function(mine, item)
        except SandboxError as error:
            return error.reason("it is damaged, or no picture or PDF")
        finally:
            free.put(mine)

    def run(function: Any, items: list[Any]) -> Iterator[tuple[Any, Any]]:
        left = iter(items)
        pending = {pool.submit(with_children, function, item): item for item in islice(left, 2 * count)}
        while pending:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                yield pending.pop(future), future.result()
                pending |= {pool.submit(with_children, function, item): item for item in islice(left, 1)}

    try:
        yield run
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for one in children:
            for child in one.values():
                child.end()
        pool.shutdown()


def _look(children: Children, file: SourceFile) -> tuple[int, str] | str:
    try:
        digest = sha256_input(file.path, limit=MAX_FILE)
        with open_input(file.path, limit=MAX_FILE) as opened:
            count = children["pages"].call("count", file.name, opened)
        if type(count) is not int or not 1 <= count <= MAX_PAGES:
            raise SandboxError("ended")
        return count, digest
    except AuditError as error:
        return error.problem.removeprefix(f"{file.path} ")


def _read(children: Children, work: _Work) -> ReadPage | str:
    settings = work.settings
    key = sha256_json(["page", _FORMAT, work.digest, work.page, settings.dpi, version("pillow"), _pdf_version()])
    page = _cached(work.cache, key)
    if page is None or not is_regular(work.folder / str(page.get("picture"))):
        try:
            with open_input(work.file.path, limit=MAX_FILE) as opened:
                found = children["pages"].call("page", work.file.name, opened, work.page, settings.dpi)
        except AuditError as error:
            return error.problem.removeprefix(f"{work.file.path} ")
        if not _is_page(found):
            raise SandboxError("ended")
        data = found.pop("picture")
        suffix = ".jpg" if found.pop("lossy") else ".png"
        page = found | {"picture": f"images/{hashlib.sha256(data).hexdigest()[:32]}{suffix}"}
        with atomic_write(work.folder / page["picture"], private=False) as file:
            file.write(data)
        _store(work.cache, key, page)
    picture = work.folder / page["picture"]
    read, places = page["words"] or [], page["boxes"] or []
    by_ocr = settings.ocr == "always" or (settings.ocr == "auto" and (page["scan"] or not read))
    by_engine = _read_ocr(children, picture, work) if by_ocr else ([], [])
    try:
        if by_ocr:
            read, places = joined(by_engine, (read, places)) if page["scan"] else by_engine
        found_words = words(read)
        boxes = as_boxes(places, len(found_words))
    except RECORD_ERRORS:
        return "its words cannot be used"
    counts = {name: page[name] for name in ("hidden", "covered", "undrawn")}
    return ReadPage(work.file.name, work.page + 1, picture, found_words, boxes, by_ocr, page["scan"], **counts)


def _is_page(found: object) -> bool:
    """True for a page as ``page_child.answer`` returns it: a child that was taken over may answer anything."""
    return (
        isinstance(found, dict)
        and found.keys() == {"picture", "lossy", "words", "boxes", "scan", "hidden", "covered", "undrawn"}
        and isinstance(found["picture"], bytes)
        and all(isinstance(found[name], bool) for name in ("lossy", "scan"))
        and all(isinstance(found[name], list | None) for name in ("words", "boxes"))
        and all(type(found[name]) is int and 0 <= found[name] <= MAX_WORDS for name in ("hidden", "covered", "undrawn"))
    )


def joined(read: Words, layer: Words) -> Words:
    """Words of an engine, and behind them those of a text layer where the engine read nothing.

    Args:
        read: Words of the engine, and their boxes.
        layer: Those of the layer.
    """
    found = as_boxes(read[1], len(read[0]))
    words, boxes = list(read[0]), found.tolist()
    for word, box in zip(layer[0], as_boxes(layer[1], len(layer[0])).tolist(), strict=True):
        middle = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        if not ((found[:, :2] <= middle) & (found[:, 2:] >= middle)).all(axis=1).any():
            words.append(word)
            boxes.append(box)
    return words, boxes


def _read_ocr(children: Children, picture: Path, work: _Work) -> Words:
    """Words of a picture, by its content and what determines the OCR."""
    data = read_bytes(picture, limit=MAX_FILE)
    language = work.settings.language
    digest = hashlib.sha256(data).hexdigest()
    key = sha256_json(["ocr", _FORMAT, digest, language, version("rapidocr"), version("onnxruntime")])
    found = _cached(work.cache, key)
    if found is None:
        match children["ocr"].call(data, language):
            case [list() as read, list() as boxes]:
                found = {"words": read, "boxes": boxes}
            case _:
                raise SandboxError("ended")
        _store(work.cache, key, found)
    return found["words"], found["boxes"]


def _cached(cache: Path, key: str) -> dict[str, Any] | None:
    file = cache / key[:2] / f"{key}.json"
    if not is_regular(file):
        return None
    try:
        found = read_json(file)
    except AuditError:  # cut off by a failing disk: read the page again
        return None
    return found if isinstance(found, dict) and {"words", "boxes"} <= found.keys() else None


def _store(cache: Path, key: str, value: dict[str, Any]) -> None:
    write_text(cache / key[:2] / f"{key}.json", json.dumps(value, ensure_ascii=False))


def _pdf_version() -> str:
    from importlib.util import find_spec

    return version("pypdfium2") if find_spec("pypdfium2") else ""
