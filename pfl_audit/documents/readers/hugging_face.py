"""Hugging Face data sets on disk: parquet files, or the Arrow files of ``save_to_disk``; no loading script is run.

The columns of a row decide how it is read: ``ground_truth`` as Donut's and CORD's, ``question`` with ``answers`` as
DocVQA's, ``tokens`` or ``words`` with ``ner_tags`` as FUNSD's, a list of linked entities as XFUND's.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np

from pfl_audit.documents.corpus import Corpus, Problem
from pfl_audit.documents.document import Boxes, Document, Membership, as_boxes
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.page_ink import Unit, unit_of
from pfl_audit.documents.readers import Part
from pfl_audit.documents.readers.arrow_rows import SUFFIXES, StoredImage, head, rows
from pfl_audit.documents.readers.donut import parse_ground_truth, questions_of, words_of_lines
from pfl_audit.documents.readers.folder import files_below
from pfl_audit.documents.readers.funsd import normalised
from pfl_audit.documents.readers.gathered import (
    SPLITS,
    Asked,
    Gathered,
    LabelError,
    field_questions,
    membership_of,
    provider_of,
    question,
    split_of,
)
from pfl_audit.documents.readers.jsonl import image_inside
from pfl_audit.documents.record_validation import RecordError, answers, words
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.inputs import is_regular
from pfl_audit.provider_identity import provider_identity

_IMAGE: Final = ("image", "img")
_WORDS: Final = ("words", "tokens")
_BOXES: Final = ("bboxes", "boxes", "bounding_boxes", "bbox")
_TAGS: Final = ("ner_tags", "labels")
_ENTITIES: Final = ("entities", "document", "form")
_OTHERS: Final = ("ground_truth", "question", "query", "answers", "answer")
_COLUMNS: Final = ("provider", "membership", "member", "split")
_READ: Final = frozenset((*_IMAGE, *_WORDS, *_BOXES, *_TAGS, *_ENTITIES, *_OTHERS, *_COLUMNS))
_FUNSD: Final = ("O", "B-HEADER", "I-HEADER", "B-QUESTION", "I-QUESTION", "B-ANSWER", "I-ANSWER")


class HuggingFaceReader:
    """Reader of parquet and Arrow files."""

    name = "hugging-face"
    precedence = 110

    def recognises(self, path: Path) -> bool:
        """Whether ``path`` is such a file, or holds one at any depth."""
        return bool(_files(path)) if path.is_dir() else path.suffix in SUFFIXES and is_regular(path)

    def read(self, path: Path, part: Part) -> Corpus:
        """Read the pages of ``part``; a file that cannot be read is a problem, and the others are read."""
        root = path if path.is_dir() else path.parent
        found = Gathered()
        pages: dict[str, Document] = {}
        for file in _files(path) if path.is_dir() else [path]:
            where = str(file.relative_to(root))
            try:
                count, columns, metadata = head(file)
                if not _READ & set(columns):
                    raise AuditError(f"{file} holds no column that is known")
                used = [name for name in dict.fromkeys(columns) if name in _READ]
                table = _Table(root, file, _split(file, root), _tag_names(metadata), pages)
                for number, row in enumerate(rows(file, count, used)):
                    found.add(f"{where} row {number + 1}", partial(table.page, row, number))
            except (UsageError, LabelError):
                raise
            except AuditError as error:
                found.problems.append(Problem(where, error.problem.removeprefix(f"{file} ")))
        return found.corpus(self.name, part)


READER = HuggingFaceReader()
_SHARES = 1.5
"""Largest coordinate of boxes that are shares of the page."""


@dataclass
class _Table:
    root: Path
    file: Path
    split: str
    tags: Sequence[str]
    pages: dict[str, Document] = field(repr=False)
    """Digest of a picture to its page: a question a row, several rows about a page."""
    unit: Unit | None = None
    """Unit of the boxes, by the first page from which it is known."""

    def page(self, row: Mapping[str, Any] | str, number: int) -> tuple[Document, list[Asked], Membership]:
        if isinstance(row, str):
            raise RecordError(row)
        truth = parse_ground_truth(row["ground_truth"]) if row.get("ground_truth") is not None else None
        image, key = self._image(row, number)
        asked, found, boxes = self._content(row, truth, image)
        file = self.file.relative_to(self.root).with_suffix("")  # the splits of save_to_disk have files of one name
        name = f"{'-'.join(file.parts)}-{number}"
        page = Document(f"{name}_1", provider_of(row, name), found, boxes, image, split_of(row, self.split))
        known = self.pages.setdefault(key, page) if truth is None and _first(row, _TAGS) is None else page
        stated = known is not page and row.get("provider") not in (None, "")
        if stated and provider_identity(page.provider) != provider_identity(known.provider):
            raise RecordError("its page has another provider in an earlier row")
        return known, asked, membership_of(row)

    def _content(
        self, row: Mapping[str, Any], truth: Any, image: PageImage
    ) -> tuple[list[Asked], tuple[str, ...], Boxes]:
        if truth is not None:
            return questions_of(truth), *words_of_lines(truth)
        entities = _first(row, _ENTITIES)
        if entities is not None:
            return _linked(entities), *self._words(row, image)
        found, boxes = self._words(row, image)
        asked = row.get("question", row.get("query"))
        if asked is not None:
            asked = asked.get("en") if isinstance(asked, Mapping) else asked
            values = row.get("answers") if row.get("answers") is not None else row.get("answer")
            return [question(asked, values)], found, boxes
        tags = _first(row, _TAGS)
        if tags is None:
            raise RecordError("it has neither a question, nor ground_truth, nor tags")
        return _tagged(found, tags, self.tags), found, boxes

    def _words(self, row: Mapping[str, Any], image: PageImage) -> tuple[tuple[str, ...], Boxes]:
        """Words and boxes; boxes above 1 are in the unit in which they lie on the ink."""
        found, values = words(_first(row, _WORDS) or []), _first(row, _BOXES) or []
        if not found or not values:
            return (), as_boxes([], 0)
        boxes = np.asarray(values, dtype=np.float64).reshape(-1, 4)
        if not boxes.max() > _SHARES:  # nor NaN
            return found, as_boxes(boxes, len(found))
        unit = self.unit or unit_of(boxes, image)
        if unit is None:
            raise RecordError("its boxes are neither thousandths nor pixels of its picture: no ink is in them")
        self.unit = None if unit is Unit.UNKNOWN else unit
        return found, as_boxes(boxes / unit.size(image), len(found))

    def _image(self, row: Mapping[str, Any], number: int) -> tuple[PageImage, str]:
        column = next((name for name in _IMAGE if row.get(name) is not None), None)
        if column is None:
            raise RecordError("it has no page image")
        value = row[column]
        if isinstance(value, Mapping) and isinstance(value.get("bytes"), Mapping):
            value = value["bytes"]
        if isinstance(value, Mapping) and "sha256" in value:
            stored = StoredImage(self.file, number, column, str(value["sha256"]))
            return PageImage(self.file.with_name(f"{stored.sha256[:16]}.img"), stored=stored), stored.sha256
        image = image_inside(self.root, value.get("path") if isinstance(value, Mapping) else value)
        return image, str(image.path)


def _files(folder: Path) -> list[Path]:
    """Files of the data set, without the results that `datasets` keeps of transformations."""
    return [file for file in files_below(folder, SUFFIXES) if not file.name.startswith("cache-")]


def _split(file: Path, root: Path) -> str:
    """Split by the name of the file (``train-00000-of-00002.parquet``) or of its folder."""
    names = (file.stem.split("-")[0], *(part.name for part in file.relative_to(root).parents))
    return next((name for name in names if name.lower() in SPLITS), "")


def _tag_names(metadata: str) -> Sequence[str]:
    """Names of tags in the metadata of the file, else those of FUNSD."""
    try:
        features = json.loads(metadata)["info"]["features"]
        tags = _first(features, _TAGS)
        inner = tags[0] if isinstance(tags, list) else tags.get("feature", tags)
        names = inner["names"]
        return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else _FUNSD
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        return _FUNSD


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((row[name] for name in names if row.get(name) is not None), None)


def _tagged(found: Sequence[str], tags: Any, names: Sequence[str]) -> list[Asked]:
    """Questions of tags: each run of a question with the answer after it, or each run of another tag as a field."""
    if not isinstance(tags, list) or len(tags) != len(found):
        raise RecordError("there is not one tag for each word")
    runs: list[tuple[str, list[str]]] = []
    for word, tag in zip(found, tags, strict=True):
        if isinstance(tag, int) and not 0 <= tag < len(names):
            raise RecordError("a tag has no name")
        begin, _, label = (names[tag] if isinstance(tag, int) else str(tag)).partition("-")
        if label and (begin == "B" or not runs or runs[-1][0] != label.lower()):
            runs.append((label.lower(), []))
        if label:
            runs[-1][1].append(word)
        elif runs and runs[-1][1]:
            runs.append(("", []))
    kept = [(label, " ".join(run)) for label, run in runs if label]
    if not {"question", "answer"} & {label for label, _ in kept}:
        return field_questions(kept)
    return [
        _named(one, two) for (label, one), (after, two) in pairwise(kept) if (label, after) == ("question", "answer")
    ]


def _linked(entities: Any) -> list[Asked]:
    """Questions of entities with ``id``, ``label``, ``text`` and ``linking`` (pairs of ids)."""
    by_id = {one["id"]: one for one in entities}
    links = {(min(pair), max(pair)) for one in entities for pair in one.get("linking") or []}
    linked: dict[Any, list[Mapping[str, Any]]] = {}
    for first, second in sorted(links):
        if first in by_id and second in by_id:
            linked.setdefault(first, []).append(by_id[second])
            linked.setdefault(second, []).append(by_id[first])
    asked = []
    for one in entities:
        if str(one["label"]).lower() == "question":
            others = linked.get(one["id"], [])
            value = " ".join(str(other["text"]) for other in others if str(other["label"]).lower() == "answer")
            if value.strip():
                asked.append(_named(one["text"], value))
    return asked


def _named(name: str, value: str) -> Asked:
    words, _, _ = question(f"What is {name.rstrip(' :')}?", [value])
    return words, answers([value]), normalised(name)[:1000]
