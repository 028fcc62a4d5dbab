"""Writers of corpora: the safe format, and the layout of PFL-DocVQA."""

from __future__ import annotations

import io
import json
import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.image_file import MAX_FILE
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.readers.jsonl import FILE_NAME
from pfl_audit.errors import UnanswerableError
from pfl_audit.files import atomic_write, write_json
from pfl_audit.inputs import is_there, sha256_input


def write_jsonl(corpus: Corpus, folder: Path) -> None:
    """Write ``corpus.jsonl`` and copy the page images beside it.

    Raises:
        AuditError: The folder cannot be written.
    """
    asked: defaultdict[str, list[Query]] = defaultdict(list)
    for query in corpus.queries:
        asked[query.document.id].append(query)
    with atomic_write(folder / FILE_NAME, private=False) as file:
        for document in corpus.documents:
            row = _row(document, asked[document.id], str(corpus.label(document.unit)), folder)
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def write_questions(queries: Sequence[Query], folder: Path) -> tuple[Problem, ...]:
    """Write questions for a vendor to answer, without the accepted answers.

    A line of ``questions.jsonl`` has ``id``, ``question``, ``words``, ``boxes`` and ``image``; images are blurred
    where the query has them blurred.

    Returns:
        Questions that are left out because their page image cannot be read, by id.
    """
    problems: list[Problem] = []
    with atomic_write(folder / "questions.jsonl") as file:
        for number, query in enumerate(queries):
            row: dict[str, Any] = {"id": query.id, "question": query.question, **words_of(query.document)}
            if query.document.image is not None:
                row["image"] = f"images/{number:06d}.jpg"
                picture = io.BytesIO()
                try:
                    query.document.image.open().save(picture, "JPEG", quality=90)
                except UnanswerableError as error:
                    problems.append(Problem(query.id, error.reason))
                    continue
                with atomic_write(folder / row["image"]) as image:
                    image.write(picture.getvalue())
            file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    return tuple(problems)


def write_pfl_docvqa(corpus: Corpus, folder: Path) -> None:
    """Write imdb files and provider maps with the file names of release 1.0.

    Page images must already be in ``images/blue`` and ``images/red``. Splits of the
    corpus become the files: ``blue_train_client_0`` and so on, ``red_test_positive``, ...
    """
    splits: defaultdict[str, list[Query]] = defaultdict(list)
    for query in corpus.queries:
        splits[query.document.split].append(query)
    points: dict[str, dict[str, list[int]]] = {}
    for split, queries in splits.items():
        colour = split.split("_", 1)[0]
        header = {"creation_time": "", "version": "1.0", "dataset": "pfl-docvqa", "split": split, "has_answer": True}
        rows: list[dict[str, Any]] = [header, *(_record(query, split) for query in queries)]
        array = np.empty(len(rows), dtype=object)
        array[:] = rows
        with atomic_write(folder / "imdb" / colour / f"{split}.npy", private=False) as file:
            np.save(file, array)
        if "train" in split:
            client = f"client_{queries[0].document.client}"
            providers: defaultdict[str, list[int]] = defaultdict(list)
            for row, query in enumerate(queries, start=1):
                providers[query.document.provider].append(row)
            points[client] = dict(providers)
    blue = {d.file: d.provider for d in corpus.documents if not d.split.startswith("red")}
    red = {d.file: {"provider": d.provider} for d in corpus.documents if d.split.startswith("red")}
    for name, mapping in (("data_points", points), ("doc2provider", blue), ("red_doc2provider", red)):
        if mapping:
            write_json(folder / f"{name}.json", mapping, private=False)


def _record(query: Query, split: str) -> dict[str, Any]:
    document = query.document
    words = words_of(document)
    return {
        "question": query.question,
        "answers": query.answers[0],
        "image_name": document.id,
        "set_name": split,
        "ocr_tokens": words["words"],
        "ocr_normalized_boxes": words["boxes"],
    }


def words_of(document: Document) -> dict[str, Any]:
    """``words`` and ``boxes`` of a page for JSON; boxes are rounded to five decimals."""
    boxes = [[round(float(value), 5) for value in box] for box in document.boxes]
    return {"words": list(document.words), "boxes": boxes}


def _row(document: Document, queries: list[Query], membership: str, folder: Path) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": document.id,
        "provider": document.provider,
        "membership": membership,
        "split": document.split,
        **words_of(document),
        "questions": [
            {"id": query.id, "key": query.key, "question": query.question, "answers": list(query.answers)}
            for query in queries
        ],
    }
    if document.client is not None:
        row["client"] = document.client
    if document.person:
        row["person"] = document.person
    if document.group:
        row["group"] = document.group
    if document.source:
        row["source"] = document.source
    if document.image is not None:
        row["image"] = copy_image(document.image, folder)
    return row


def copy_image(image: PageImage, folder: Path) -> str:
    """Copy a page image into ``images/`` and return its path relative to the folder.

    If another image has the same name, the copy is named by its digest.

    Raises:
        AuditError: The image cannot be read, or the folder cannot be written.
    """
    source = image.path
    name = f"images/{source.name}"
    digest = image.stored.sha256 if image.stored else sha256_input(source, limit=MAX_FILE)
    if is_there(folder / name) and sha256_input(folder / name) != digest:
        name = f"images/{digest[:16]}{source.suffix}"
    if not is_there(folder / name):
        with image.file() as picture, atomic_write(folder / name, private=False) as file:
            shutil.copyfileobj(picture, file)
    return name
