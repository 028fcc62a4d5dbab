"""Drawn data in the exact layouts of the papers' data sets, at about a hundredth of the size, with models to audit."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from PIL import Image

from pfl_audit.cli.main import run
from pfl_audit.documents.synthetic.generator import Recipe, make_corpus
from pfl_audit.progress import Silent
from tests.attacks.inversion.batch_models import save_model
from tests.conftest import checkpoints

FIXTURES = Path(__file__).parents[2] / "fixtures"
HUNDREDTH = Recipe(
    members=8, non_members=6, red_providers=6, clients=2, documents=1, red_documents=1, questions=9, seed=5
)
"""Of PFL-DocVQA's RED: about 100 questions in place of 8,100, and providers of each class that can be attacked."""
_SIDE = 600
_DUE = {
    "wtq": ("How many orders has branch {}?", "{}7", ("BRANCH {}", "ORDERS {}7", "RETURNS {}")),
    "docvqa": ("What is the total?", "{}.50", ("INVOICE {}", "TOTAL {}.50", "DUE 01/0{}/2019")),
    "tabfact": ("branch {} has the most orders", "1", ("BRANCH {}", "ORDERS {}9", "STAFF {}")),
}
"""Question, answer and lines of a page of each source of DUE, with the page's number in them."""


def lay_out(folder: Path) -> None:
    """Make the tree that docs/reproduce expects, as far as recipes name it, and partition DUE as the pilot's page does.

    ``layoutlmv3-base`` is a LayoutLMv3 of one head with random weights.
    """
    corpus = folder / "data/pfl-docvqa"
    make_corpus(HUNDREDTH, corpus, Silent())
    (corpus / "imdb").rename(corpus / "1.0")
    (corpus / "imdb").mkdir()
    (corpus / "1.0").rename(corpus / "imdb/1.0")  # the folders of release 1.0
    make = checkpoints(corpus, folder / "models/made")
    for name, seed in (("vt5-c", 0), ("vt5-c-dp-eps8", 1), ("vt5-base-spdocvqa", 2)):
        make(seed).rename(folder / "models" / name)
    rows = [json.loads(line) for line in (FIXTURES / "forms/forms.jsonl").read_text().splitlines()]
    for place, row in enumerate(rows[:10]):
        part = "training_data" if place < 8 else "testing_data"
        _funsd(folder / "data/funsd" / part, row)
    for number in range(10):
        _sroie(folder / "data/sroie", number)
    for data in ("funsd", "sroie"):
        public = folder / f"models/cdmi/{data}-public-layoutlm/best-loss"
        target = folder / f"models/cdmi/{data}-mlm-layoutlm-bimodal/best-precision"
        for path, name in ((public, "layoutlm-public"), (target, "layoutlm-private")):
            path.parent.mkdir(parents=True)
            path.symlink_to(FIXTURES / name)
    (folder / "data/templates").mkdir()
    (folder / "data/templates/form-01").symlink_to(FIXTURES / "templates/form-01")
    (folder / "models/donut-base").symlink_to(FIXTURES / "donut")
    (folder / "models/layoutlmv3-base").mkdir()
    save_model(folder / "models/layoutlmv3-base", 64 * 3, picture=32)
    for source in _DUE:
        _due(folder / "data" / source, *_DUE[source])
    sources = [str(folder / "data" / source) for source in _DUE]
    assert run(["data", "partition", *sources, "--clients", "3", "--out", str(folder / "data/pilot-3"), "-q"]) == 0


def _funsd(folder: Path, row: dict[str, Any]) -> None:
    """A form as FUNSD annotates it: entities with words, boxes in pixels, and links between numbers."""
    for part in ("annotations", "images"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    numbers = {field["id"]: number for number, field in enumerate(row["fields"])}
    links = [[numbers[one], numbers[other]] for one, other in row["links"]]
    entities = []
    for field in row["fields"]:
        span = range(field["start"], field["stop"])
        words = [{"text": row["words"][at], "box": [round(_SIDE * side) for side in row["boxes"][at]]} for at in span]
        number = numbers[field["id"]]
        entity = {"id": number, "label": field["label"], "text": " ".join(word["text"] for word in words)}
        entities.append(
            {**entity, "words": words, "box": words[0]["box"], "linking": [_ for _ in links if number in _]}
        )
    (folder / f"annotations/{row['id']}.json").write_text(json.dumps({"form": entities}))
    Image.new("L", (_SIDE, _SIDE), 255).save(folder / f"images/{row['id']}.png")


def _sroie(folder: Path, number: int) -> None:
    """A receipt as SROIE has it: lines with four corners, and a file with its entities."""
    for part in ("box", "entities", "img"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    entities = {
        "company": f"LIM SENG TRADING {number} SDN BHD",
        "date": f"{number + 10}/04/2018",
        "address": f"NO {number} JALAN RAJA LAUT 50350 KUALA LUMPUR",
        "total": f"{number + 3}.5{number}",
    }
    lines = [
        entities["company"], entities["address"], f"DATE {entities['date']}", f"INVOICE {7919 * number + 11}",
        f"TOTAL {entities['total']}",
    ]  # fmt: skip
    rows = [f"20,{40 * at + 20},400,{40 * at + 20},400,{40 * at + 45},20,{40 * at + 45},{lines[at]}" for at in range(5)]
    name = f"X{51005200000 + number}"
    (folder / f"box/{name}.txt").write_text("\n".join(rows) + "\n")
    (folder / f"entities/{name}.txt").write_text(json.dumps(entities))
    Image.new("L", (_SIDE, _SIDE), 255).save(folder / f"img/{name}.jpg")


def _due(folder: Path, question: str, answer: str, lines: tuple[str, ...]) -> None:
    """Documents of a page each as DUE annotates them: questions, and words with boxes in pixels."""
    (folder / "images").mkdir(parents=True)
    for split, numbers in (("train", range(1, 7)), ("dev", range(7, 9)), ("test", range(9, 10))):
        asked, contents = [], []
        for number in numbers:
            name = f"{folder.name}-{number}"
            words = [(at, word) for at, line in enumerate(lines) for word in line.format(number).split()]
            boxes = [[20 + 100 * (at % 2), 40 * row + 20, 100 + 100 * (at % 2), 40 * row + 45]
                     for at, (row, _) in enumerate(words)]  # fmt: skip
            page = {"structure_value": [[0, len(words)]], "positions": [[0, 0, _SIDE, _SIDE]]}
            layer = {"tokens": [word for _, word in words], "positions": boxes, "structures": {"pages": page}}
            contents.append({"name": name, "contents": [{"tool_name": "tesseract", "tokens_layer": layer}]})
            value = {"value": answer.format(number)}
            annotation = {"id": "1", "key": question.format(number), "values": [value]}
            asked.append({"name": name, "annotations": [annotation]})
            Image.new("L", (_SIDE, _SIDE), 255).save(folder / f"images/{name}.png")
        (folder / split).mkdir()
        for file, rows in (("document.jsonl", asked), ("documents_content.jsonl", contents)):
            (folder / split / file).write_text("".join(json.dumps(row) + "\n" for row in rows))


def copy_recipes(folder: Path) -> None:
    """The recipes where the documents' commands look for them."""
    shutil.copytree(Path(__file__).parents[2] / "docs/recipes", folder / "docs/recipes")
