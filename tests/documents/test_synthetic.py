import hashlib
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.documents.check import check_corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.synthetic.generator import ASKED, Recipe, add_ocr_errors, make_corpus
from pfl_audit.documents.synthetic.invoice import draw_invoice
from pfl_audit.documents.synthetic.providers import WORDINGS, draw_providers
from pfl_audit.documents.synthetic.render import LABELS, render_invoice
from pfl_audit.errors import UsageError
from pfl_audit.progress import Silent

SMALL = Recipe(members=4, non_members=4, red_providers=3, clients=2, documents=2, red_documents=2, seed=9)


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    for name, recipe in (("a", SMALL), ("b", SMALL), ("c", replace(SMALL, seed=10))):
        make_corpus(recipe, tmp_path / name, Silent())
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert digests(tmp_path / "a") != digests(tmp_path / "c")


def test_files_are_named_and_laid_out_as_in_release_1(tmp_path: Path) -> None:
    make_corpus(SMALL, tmp_path / "x", Silent())
    names = {name for name in digests(tmp_path / "x") if not name.endswith(".jpg")}
    assert names == {
        "data_points.json",
        "doc2provider.json",
        "red_doc2provider.json",
        "recipe.json",
        "imdb/blue/blue_train_client_0.npy",
        "imdb/blue/blue_train_client_1.npy",
        "imdb/blue/blue_valid.npy",
        "imdb/blue/blue_test_positive.npy",
        "imdb/blue/blue_test_negative.npy",
        "imdb/red/red_test_positive.npy",
        "imdb/red/red_test_negative.npy",
    }


def test_industries_word_the_same_values_otherwise() -> None:
    assert all(len(labels) == sum(map(len, WORDINGS.values())) for labels in LABELS.values())
    worded = {name: {labels[at] for labels in LABELS.values() for at in places} for name, places in WORDINGS.items()}
    assert len(set.union(*worded.values())) == sum(map(len, worded.values()))  # no label is of two industries
    drawn = {name: draw_providers(30, np.random.default_rng(0), wordings=name) for name in WORDINGS}
    assert len({tuple(one.name for one in providers) for providers in drawn.values()}) == 1
    for name, labels in worded.items():
        for provider in drawn[name]:
            page = " ".join(render_invoice(draw_invoice(provider, np.random.default_rng(1))).words)
            assert all(
                any(label in page for label in LABELS[key] if label in labels) for key in ("subtotal", "due_date")
            )


def test_payables_are_asked_for_and_nothing_else(tmp_path: Path) -> None:
    recipe = Recipe(members=10, non_members=0, red_providers=0, documents=2, questions=4, asked="payables")
    keys = {query.key for query in make_corpus(recipe, tmp_path / "corpus", Silent()).queries}
    assert keys == ASKED["payables"].keys()
    with pytest.raises(UsageError, match="questions cannot be about 'weather'"):
        make_corpus(replace(recipe, asked="weather"), tmp_path / "other", Silent())
    assert not (tmp_path / "other").exists()


def test_words_stand_in_their_boxes() -> None:
    rng = np.random.default_rng(0)
    for provider in draw_providers(20, rng):
        canvas = render_invoice(draw_invoice(provider, rng))
        boxes = canvas.boxes()
        assert len(boxes) == len(canvas.words) > 30
        assert ((boxes >= 0) & (boxes <= 1)).all()
        pixels = np.asarray(canvas.page.convert("L"), dtype=int)
        for left, top, right, bottom in (boxes * np.array([560, 792, 560, 792])).astype(int):
            assert pixels[top : bottom + 1, left : right + 1].std() > 0


def test_every_value_stands_on_the_page_unless_it_is_a_word_mark() -> None:
    rng = np.random.default_rng(1)
    marks = 0
    for provider in draw_providers(60, rng):
        invoice = draw_invoice(provider, rng)
        text = " ".join(render_invoice(invoice).words)
        for key, value in invoice.values.items():
            if key == "provider_name" and invoice.logo_only:
                assert value not in text
                marks += 1
            else:
                assert value in text, key
    assert 5 < marks < 40


def test_providers_differ_and_taken_names_are_left_out() -> None:
    providers = draw_providers(300, np.random.default_rng(2))
    assert len({provider.name.lower() for provider in providers}) == 300
    taken = frozenset(provider.name.lower() for provider in providers[:50])
    again = draw_providers(300, np.random.default_rng(2), taken=taken)
    assert taken.isdisjoint(provider.name.lower() for provider in again)


def test_misreading_hits_the_share_it_is_given() -> None:
    words = ["Invoice"] * 4000
    wrong = sum(word != "Invoice" for word in add_ocr_errors(words, 0.1, np.random.default_rng(0)))
    assert 300 < wrong < 500
    assert add_ocr_errors(words, 0.0, np.random.default_rng(0)) == words
    assert all(add_ocr_errors(["a", "1", "ab"], 1.0, np.random.default_rng(seed)) for seed in range(20))


def test_counts_are_those_of_table_5(tmp_path: Path) -> None:
    corpus = make_corpus(SMALL, tmp_path / "x", Silent())
    found = check_corpus(open_corpus(tmp_path / "x"), Silent())
    assert not found.problems
    assert sum(row["questions"] for row in found.counts) == len(corpus.queries)
    assert sum(row["pages"] for row in found.counts) == len(corpus.documents)
    clients = [row for row in found.counts if str(row["split"]).startswith("blue_train")]
    assert [(row["client"], row["providers"]) for row in clients] == [(0, 2), (1, 2)]


def test_an_unreadable_page_is_named(tmp_path: Path) -> None:
    make_corpus(SMALL, tmp_path / "x", Silent())
    broken = next((tmp_path / "x/images/red").iterdir())
    broken.write_bytes(b"no image")
    (problem,) = check_corpus(open_corpus(tmp_path / "x"), Silent()).problems
    assert problem.record == broken.stem
    assert "cannot be used" in problem.reason


@pytest.mark.parametrize(
    "change",
    [
        *({"clients": 5}, {"red_providers": 9}, {"ocr_noise": 2.0}, {"members": 0}, {"documents": 0.5}),
        *({"red_providers": -1}, {"documents": math.nan}, {"red_documents": math.inf}, {"questions": math.inf}),
        *({"non_members": -1}, {"wordings": "spoken"}, {"members": 3_000_000_000}, {"non_members": 10**9}),
    ],
)
def test_a_recipe_that_cannot_be_drawn(tmp_path: Path, change: dict[str, float | str]) -> None:
    with pytest.raises(UsageError):
        make_corpus(replace(SMALL, **change), tmp_path / "x", Silent())
    assert not (tmp_path / "x").exists()


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(UsageError, match="not empty"):
        make_corpus(SMALL, tmp_path, Silent())
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
