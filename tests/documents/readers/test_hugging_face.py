"""Hugging Face data sets on disk, as parquet and Arrow files."""

import hashlib
import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageDraw

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import arrow_rows, hugging_face
from pfl_audit.documents.readers.jsonl import READER as JSONL
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.errors import AuditError, UnanswerableError, UsageError

READER = hugging_face.READER


def picture(shade: int) -> bytes:
    out = io.BytesIO()
    Image.new("L", (30, 20), shade).save(out, "PNG")
    return out.getvalue()


def embedded(shade: int) -> dict[str, Any]:
    return {"bytes": picture(shade), "path": None}


def parquet(file: Path, rows: list[dict[str, Any]], metadata: dict[str, Any] | None = None, **options: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    if metadata:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": metadata})})
    pq.write_table(table, file, **options)


def arrow(file: Path, rows: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(rows)
    with pa.OSFile(str(file), "wb") as out, pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)
    (file.parent / "state.json").write_text("{}")


def asked(shade: int, number: int, **columns: Any) -> dict[str, Any]:
    words = {"words": ["Total", "9"], "bboxes": [[100, 200, 300, 400], [0, 0, 1000, 1000]]}
    row = {"image": embedded(shade), "question": f"What is {number}?", "answers": [str(number), f"{number}.0"]}
    return {**row, **words, **columns}


def found_in(corpus: Corpus) -> list[tuple[str, tuple[str, ...]]]:
    return [(query.question, query.answers) for query in corpus.queries]


@pytest.mark.parametrize("write", [parquet, arrow])
def test_questions_of_docvqa(tmp_path: Path, write: Any) -> None:
    rows = [asked(number // 2, number) for number in range(70)]
    suffix = "parquet" if write is parquet else "arrow"
    write(tmp_path / f"data/train-00000-of-00002.{suffix}", rows)
    write(tmp_path / f"data/test-00000-of-00001.{suffix}", [asked(200, 1, provider="Acme", member=True)])
    (tmp_path / "loader.py").write_text("raise SystemExit")
    assert READER.recognises(tmp_path)
    corpus = READER.read(tmp_path, "all")
    assert corpus.problems == ()
    assert sorted(found_in(corpus)) == sorted(
        [(row["question"], tuple(row["answers"])) for row in [*rows, asked(0, 1)]]
    )
    assert len(corpus.documents) == 36
    assert corpus.members() == ("Acme",)
    blue = READER.read(tmp_path, "blue")
    assert {page.split for page in blue.documents} == {"blue_train"}
    for shade in (0, 20, 34, 3):
        image = blue.documents[shade].image
        assert image is not None
        assert image.digest == hashlib.sha256(picture(shade)).hexdigest()
        assert image.open().getpixel((0, 0)) == (shade, shade, shade)
    assert np.allclose(blue.documents[0].boxes[0], [0.1, 0.2, 0.3, 0.4])
    write_jsonl(corpus, tmp_path / "out")
    assert JSONL.read(tmp_path / "out", "all").digest == corpus.digest


def test_row_groups(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", [asked(number, number) for number in range(50)], row_group_size=7)
    corpus = READER.read(tmp_path, "all")
    assert [query.answers[0] for query in corpus.queries] == [str(number) for number in range(50)]
    shades = [page.image.open().getpixel((0, 0))[0] for page in corpus.documents[::-9] if page.image]
    assert shades == list(range(50))[::-9]


def test_cord(tmp_path: Path) -> None:
    truth = {"gt_parse": {"menu": [{"nm": "Tea"}, {"nm": "Cake"}]}}
    parquet(tmp_path / "validation.parquet", [{"image": embedded(1), "ground_truth": json.dumps(truth)}])
    queries = READER.read(tmp_path, "all").queries
    assert [(query.key, query.answers) for query in queries] == [("menu.nm", ("Tea",)), ("menu.nm", ("Cake",))]
    assert queries[0].document.split == "blue_valid"


def test_funsd_and_tags_with_names(tmp_path: Path) -> None:
    row = {"image": embedded(1), "tokens": ["Full", "Name:", "Ada", "B.", "x"], "bboxes": [[0, 0, 9, 9]] * 5}
    parquet(tmp_path / "a.parquet", [{**row, "ner_tags": [3, 4, 5, 6, 0]}])
    names = {"features": {"ner_tags": {"feature": {"names": ["O", "B-MENU.NM", "I-MENU.NM"]}}}}
    parquet(tmp_path / "b.parquet", [{**row, "ner_tags": [0, 1, 2, 0, 1]}], names)
    queries = READER.read(tmp_path, "all").queries
    assert [(query.key, query.answers) for query in queries] == [
        ("full_name", ("Ada B.",)),
        ("menu.nm", ("Name: Ada",)),
        ("menu.nm", ("x",)),
    ]


def test_xfund(tmp_path: Path) -> None:
    entities = [
        {"id": 0, "label": "question", "text": "Name:", "linking": [[0, 1]]},
        {"id": 1, "label": "answer", "text": "Ada", "linking": [[0, 1]]},
    ]
    parquet(tmp_path / "a.parquet", [{"image": embedded(1), "document": entities}])
    (query,) = READER.read(tmp_path, "all").queries
    assert (query.key, query.answers) == ("name", ("Ada",))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"image": None}, "it has no page image"),
        ({"question": None}, "neither a question"),
        ({"answers": []}, "it has no answer"),
        ({"question": "Zyxwv" * 999}, "question has more than"),
        ({"words": ["Zyxwv"]}, "1 words but 2 boxes"),
        ({"words": ["Zyxwv" * 300, "b"]}, "a text of more than"),
        ({"member": "Zyxwv"}, "membership is none of"),
        ({"image": {"bytes": None, "path": "../Zyxwv.png"}}, "points outside"),
        ({"bboxes": [[float("nan")] * 4] * 2}, "not a finite number"),
        ({"question": "z" * (17 << 20)}, "larger than 3 MiB"),
    ],
)
def test_a_row_that_cannot_be_used(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    base = asked(1, 1, member=None, bboxes=[[1.0, 2.0, 3.0, 4.0]] * 2)
    parquet(tmp_path / "a.parquet", [base, {**base, "image": embedded(3), **change}])
    corpus = READER.read(tmp_path, "all")
    assert len(corpus.queries) == 1
    (problem,) = corpus.problems
    assert problem.record == "a.parquet row 2"
    assert reason in problem.reason
    assert "Zyxwv" not in problem.reason


def damaged(good: bytes) -> dict[str, bytes]:
    return {
        "cut": good[: len(good) // 2],
        "text": b"Zyxwv" * 99,
        "empty": b"",
        "footer": good[:-9] + b"\xff" * 5 + b"PAR1",
    }


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", ["cut", "text", "empty", "footer"])
@pytest.mark.parametrize("write", [parquet, arrow])
def test_a_damaged_file_is_a_problem(tmp_path: Path, write: Any, kind: str) -> None:
    bad = tmp_path / f"a.{'parquet' if write is parquet else 'arrow'}"
    write(bad, [asked(1, 1)])
    bad.write_bytes(damaged(bad.read_bytes())[kind])
    parquet(tmp_path / "b.parquet", [asked(2, 2)])
    corpus = READER.read(tmp_path, "all")
    assert found_in(corpus) == [("What is 2?", ("2", "2.0"))]
    (problem,) = corpus.problems
    assert problem.record == bad.name
    assert "Zyxwv" not in problem.reason


def test_a_picture_that_is_none(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", [asked(1, 1, image={"bytes": b"Zyxwv", "path": None})])
    (page,) = READER.read(tmp_path, "all").documents
    assert page.image is not None
    with pytest.raises(UnanswerableError, match="no image that can be read"):
        page.image.open()


def test_a_file_that_is_damaged_after_reading(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", [asked(1, 1)])
    (page,) = READER.read(tmp_path, "all").documents
    other = tmp_path / "b.parquet"
    parquet(other, [asked(2, 2)])
    READER.read(other, "all")  # the child holds one file open
    (tmp_path / "a.parquet").write_bytes(b"Zyxwv")
    assert page.image is not None
    with pytest.raises(UnanswerableError) as caught:
        page.image.open()
    assert "cannot be read: it is damaged" in caught.value.reason
    assert "parquet" not in caught.value.reason


def test_two_memberships_of_a_provider(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", [asked(at, at, provider="P", member=bool(at)) for at in (0, 1)])
    with pytest.raises(AuditError, match="another membership"):
        READER.read(tmp_path, "all")


@pytest.mark.parametrize(
    ("action", "forged"),
    [
        ("head", None),
        ("head", {}),
        ("head", {"rows": "1", "columns": ["words"], "metadata": ""}),
        ("head", {"rows": 1, "columns": [["words"]], "metadata": ""}),
        ("head", {"rows": 1, "columns": ["words"], "metadata": b""}),
        ("rows", None),
        ("rows", 3),
        ("rows", {"a": 1}),
    ],
)
def test_a_forged_answer_of_the_child_costs_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, forged: object
) -> None:
    parquet(tmp_path / "a.parquet", [asked(1, 1)])
    call = arrow_rows._CHILD.call
    monkeypatch.setattr(arrow_rows._CHILD, "call", lambda what, *rest: forged if what == action else call(what, *rest))
    (problem,) = READER.read(tmp_path, "all").problems
    assert "cannot be read: it" in problem.reason


def test_pyarrow_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet(tmp_path / "a.parquet", [asked(1, 1)])
    monkeypatch.setattr("pfl_audit.documents.readers.arrow_rows.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install"):
        READER.read(tmp_path, "all")


def test_splits_whose_files_have_one_name_are_all_read(tmp_path: Path) -> None:
    for shade, split in enumerate(("train", "test")):
        arrow(tmp_path / split / "data-00000-of-00001.arrow", [asked(shade, 1)])
    corpus = READER.read(tmp_path, "all")
    assert corpus.problems == ()
    assert {page.split for page in corpus.documents} == {"blue_train", "red_test"}
    assert len({page.provider for page in corpus.documents}) == 2


def test_many_linked_entities_are_read_in_linear_time() -> None:
    many = 30_000  # minutes, if each question looks at every link
    entities = [
        {"id": at, "label": "answer" if at % 2 else "question", "text": f"t{at}", "linking": [[at, at ^ 1]]}
        for at in range(many)
    ]
    asked = hugging_face._linked(entities)
    assert len(asked) == many // 2
    assert asked[0][1] == ("t1",)


def test_many_threads_read_pictures_through_one_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrow(tmp_path / "train.arrow", [asked(shade, 1) for shade in range(8)])
    pages = READER.read(tmp_path, "all").documents
    started: list[object] = []
    start = arrow_rows.Sandbox._start
    monkeypatch.setattr(arrow_rows.Sandbox, "_start", lambda child: (started.append(child._target), start(child)))
    arrow_rows._CHILD.close()
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(lambda page: page.image and page.image.open().size, pages))
    assert sizes == [(30, 20)] * 8
    assert started.count(arrow_rows._CHILD._target) == 1


@pytest.mark.parametrize(("width", "height"), [(400, 560), (800, 900), (1000, 1000)])
@pytest.mark.parametrize("noise", [0.0, 4.0, 12.0])
@pytest.mark.parametrize("unit", ["pixels", "thousandths", "points"])
def test_boxes_are_in_the_unit_in_which_they_lie_on_the_ink(
    tmp_path: Path, width: int, height: int, noise: float, unit: str
) -> None:
    paper = np.random.default_rng(0).normal(225, noise, (height, width))
    page = Image.fromarray(np.clip(paper, 0, 255).astype(np.uint8))
    places = np.array([[0.2, 0.1 * line, 0.3, 0.1 * line + 0.03] for line in range(1, 9)])
    pixels = (places * [width, height, width, height]).round()
    for left, top, right, low in pixels.tolist():
        ImageDraw.Draw(page).line((left, top, right, low), fill=0, width=3)
    out = io.BytesIO()
    page.save(out, "JPEG", quality=85)
    boxes = pixels if unit == "pixels" else (places * (1000 if unit == "thousandths" else [30, 60, 30, 60])).round()
    words = {"words": list("abcdefgh"), "bboxes": boxes.astype(int).tolist()}
    parquet(tmp_path / "train.parquet", [asked(0, 1, image={"bytes": out.getvalue(), "path": None}, **words)])
    corpus = READER.read(tmp_path, "all")
    if unit == "points":
        assert [problem.reason for problem in corpus.problems] == [
            "its boxes are neither thousandths nor pixels of its picture: no ink is in them"
        ]
    else:
        assert np.allclose(corpus.documents[0].boxes, places, atol=2e-3)


def test_a_blank_page_does_not_decide_the_unit_of_the_next(tmp_path: Path) -> None:
    page = Image.new("L", (400, 400), 255)
    ImageDraw.Draw(page).line((200, 200, 280, 240), fill=0, width=3)
    out = io.BytesIO()
    page.save(out, "PNG")
    words = {"words": ["a"], "bboxes": [[200, 200, 280, 240]]}
    images = [{"bytes": data, "path": None} for data in (picture(255), out.getvalue())]
    parquet(tmp_path / "train.parquet", [asked(0, at, image=image, **words) for at, image in enumerate(images)])
    assert np.allclose(READER.read(tmp_path, "all").documents[1].boxes, [[0.5, 0.5, 0.7, 0.6]])
