import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.writers import write_jsonl, write_questions
from pfl_audit.errors import AuditError

Page = Callable[..., Document]


def picture(path: Path, seed: int) -> PageImage:
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(0, 255, size=(8, 8, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    return PageImage(path)


def corpus_of(page: Page, *images: PageImage) -> Corpus:
    pages = [replace(page("Acme", name=f"doc{number}_1"), image=image) for number, image in enumerate(images)]
    return Corpus(tuple(Query(f"q/{page.id}", page, "Who?", ("acme",)) for page in pages))


def test_pictures_of_one_name_are_kept_apart(page: Page, tmp_path: Path) -> None:
    images = [picture(tmp_path / folder / "1.png", seed) for folder, seed in (("a", 1), ("b", 2), ("c", 2), ("d", 1))]
    write_jsonl(corpus_of(page, *images), tmp_path / "out")
    pages = open_corpus(tmp_path / "out").documents
    assert [page.image and page.image.digest for page in pages] == [image.digest for image in images]
    assert len(list((tmp_path / "out/images").iterdir())) == 2  # the same picture is there once


def test_pictures_that_stand_there_already_stay(page: Page, tmp_path: Path) -> None:
    images = [picture(tmp_path / "a/1.png", 1), picture(tmp_path / "images/1.png", 2)]
    write_jsonl(corpus_of(page, *images), tmp_path)
    pages = open_corpus(tmp_path).documents
    assert [page.image and page.image.digest for page in pages] == [image.digest for image in images]


def test_a_picture_that_is_missing_is_named(page: Page, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=r"missing.png does not exist"):
        write_jsonl(corpus_of(page, PageImage(tmp_path / "missing.png")), tmp_path / "out")


def test_questions_about_unreadable_pages_are_left_out_and_listed(page: Page, tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no picture")
    corpus = corpus_of(page, PageImage(tmp_path / "bad.png"), picture(tmp_path / "good.png", 1))
    (problem,) = write_questions(corpus.queries, tmp_path / "out")
    assert (problem.record, "cannot be used" in problem.reason) == ("q/doc0_1", True)
    rows = [json.loads(line) for line in (tmp_path / "out/questions.jsonl").read_text().splitlines()]
    assert [row["id"] for row in rows] == ["q/doc1_1"]
