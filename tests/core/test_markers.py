"""A whole masked audit of a corpus whose every name, value, id and path holds a marker: it stays in private places."""

import base64
import io
import json
import re
import shutil
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from pfl_audit.cli.main import run
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.scrubbing.questions import scrubbed_questions
from pfl_audit.documents.writers import write_jsonl
from tests.privacy.test_guarantee import CLAIM

MARK = "zqxj"
PRIVATE = ("private/", "run.json", "responses.sqlite")
CHECKS = ("memorization.provider_name", "memorization.generalisation", "memorization.unprompted", "membership.azk")


def marked(corpus: Corpus) -> Corpus:
    """The corpus with a marker in every text."""
    pages: dict[str, Document] = {}
    for page in corpus.documents:
        words = tuple(f"{word}{MARK}" for word in page.words)
        pages[page.id] = replace(page, id=f"{MARK}{page.id}", provider=f"{MARK} {page.provider}", words=words)
    queries = [
        Query(
            f"{MARK}{query.id}",
            pages[query.document.id],
            f"{query.question} {MARK}",
            tuple(" ".join(f"{word}{MARK}" for word in answer.split()) for answer in query.answers),
            query.key,
        )
        for query in corpus.queries
    ]
    membership = {f"{MARK} {name}": corpus.label(name) for name in corpus.providers}
    return Corpus(tuple(queries), membership)


@pytest.fixture
def place(tmp_path: Path, corpus_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a marker in its name, and a corpus of which two records are damaged."""
    folder = tmp_path / f"home {MARK}" / MARK
    folder.mkdir(parents=True)
    write_jsonl(marked(open_corpus(corpus_folder)), folder / "red")
    file = folder / "red" / "corpus.jsonl"
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    for row in rows:
        row["split"] = row["split"].replace("blue_train", "blue_valid")
    next(row for row in rows if "positive" in row["split"])["boxes"] = [[0.1]]
    seen = next(row for row in reversed(rows) if "negative" in row["split"])
    (file.parent / seen["image"]).write_bytes(b"no picture")
    file.write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setenv("HOME", str(folder.parent))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return folder


def travels(out: Path, *said: str) -> str:
    """All that may be passed on: files with their names, pictures as far as they hold text, and what was printed."""
    found = [*said]
    for path in out.rglob("*"):
        name = path.relative_to(out).as_posix()
        if path.is_file() and not name.startswith(PRIVATE):
            found += [name, path.read_bytes().decode(errors="replace")]
    for kind, data in re.findall(r'"data:image/([^;]+);base64,([^"]*)"', "\n".join(found)):
        content = base64.b64decode(data)
        if kind.startswith("svg"):
            found.append(content.decode())
        else:
            with Image.open(io.BytesIO(content)) as picture:
                found.append(str(picture.info))
    return "\n".join(found).lower()


def nothing_identifies(text: str, folder: Path) -> None:
    assert not re.findall(rf".{{0,60}}{MARK}.{{0,30}}", text)
    assert not re.findall(r"[^\s\"]*/(?:tmp|home|root|usr|var)/[^\s\"]*", text)
    assert str(folder).lower() not in text
    assert not re.search(rf"(?<!\w){re.escape(socket.gethostname().lower())}(?!\w)", re.sub(r'"data:[^"]*"', "", text))


@pytest.mark.slow
def test_a_masked_audit_of_recorded_answers(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    red = open_corpus(place / "red", "red")
    keyed = scrubbed_questions(red, "provider_name", seed=0).queries
    lines = [{"id": query.id, "answer": query.answers[0], "confidence": 0.9} for query in (*red.queries, *keyed)]
    (place / "answers.jsonl").write_text("\n".join(map(json.dumps, lines)))
    arguments = ["audit", "--red", str(place / "red"), "--answers", str(place / "answers.jsonl"), "--out", "run"]
    for check in CHECKS:
        arguments += ["--check", check]
    assert run([*arguments, "--blue", str(place / "red")]) in (0, 1, 3)
    shown = capsys.readouterr()
    results = json.loads(Path("run/results.json").read_text())
    by_id = {check["id"]: check for check in results["checks"]}
    assert len(by_id["memorization.provider_name"]["evidence"]) == 4
    assert len(json.loads(Path("run/private/results.json").read_text())["datasets"][0]["problems"]) >= 1
    assert results["datasets"][0]["path"] == "red"
    nothing_identifies(travels(Path("run"), shown.out, shown.err), place)
    full = json.loads(Path("run/private/provenance.json").read_text())
    assert str(place / "red") in full["paths"]
    assert MARK in Path("run/run.json").read_text()


def test_a_masked_audit_of_a_checkpoint(
    place: Path, make_checkpoint: Callable[[int], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    model = place / f"{MARK}-ckpts" / "ckpt"
    shutil.copytree(make_checkpoint(0), model)
    texts = dict.fromkeys(("unit", "adjacency", "accountant", "noise_generator"), f"add {MARK}")
    record = {"mode": MARK, "privacy": {**CLAIM, **texts}, "notes": [MARK], "from": str(place), MARK: {"clients": MARK}}
    (model / "training.json").write_text(json.dumps(record))
    arguments = ["audit", "--red", str(place / "red"), "--model", str(model), "--out", "run"]
    assert run([*arguments, "--check", "memorization.provider_name"]) in (0, 1, 3)
    shown = capsys.readouterr()
    nothing_identifies(travels(Path("run"), shown.out, shown.err), place)
    assert json.loads(Path("run/results.json").read_text())["target"]["path"] == "ckpt"
