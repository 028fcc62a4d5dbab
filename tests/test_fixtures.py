"""The recipes of the embedded models: what they are shown, and that RED is new to all of them."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.keys import templates
from pfl_audit.documents.synthetic.generator import Recipe, companies_of, make_corpus
from pfl_audit.errors import UsageError
from pfl_audit.fixtures import build
from pfl_audit.fixtures.build import OUTSIDE, PAGES, PRIVATE
from pfl_audit.fixtures.cut_pages import BEFORE, NAMES, CutPages, Cutting, cut, find_value
from pfl_audit.fixtures.reading_lessons import BACK, ReadingLessons, look_back, teach_reading
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.weights import fingerprint_files
from pfl_audit.progress import Silent
from pfl_audit.training import loop
from pfl_audit.training.scratch import new_vt5
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.state import save_state

WORDS = (
    *("INVOICE", "Vendor:", "Acme", "Foods", "Net", "30", "Total:", "$5.00", "Net", "amount:", "$4.00"),
    *("Date:", "2020-01-01", "a", "b", "c", "d", "e", "f"),
)


def _page(name: str = "p_1") -> Document:
    boxes = np.stack([np.arange(len(WORDS)) / 100] * 4, axis=1).astype(np.float32)
    return Document(name, "Acme Foods", WORDS, boxes, None, "blue_train_client_0")


def _query(key: str, answer: str, page: Document | None = None) -> Query:
    page = page or _page()
    return Query(f"{page.id}-{key}", page, "?", (answer,), key)


def _values(page: Document) -> list[Query]:
    pairs = {"provider_name": "acme foods", "total_amount": "$5.00", "subtotal": "$4.00", "invoice_date": "2020-01-01"}
    return [_query(key, answer, page) for key, answer in pairs.items()]


def test_no_two_corpora_share_a_company_with_the_audited_one() -> None:
    """RED's companies are PRIVATE's, and a model that learnt to read on them would know them."""
    names = [{company.name.lower() for company in companies_of(recipe)} for recipe in (PRIVATE, OUTSIDE, PAGES)]
    assert not any(some & others for some, others in itertools.combinations(names, 2))


def test_the_pages_of_the_demo_are_the_first_of_each_class(tmp_path: Path) -> None:
    red = Path(build.__file__).parent / "red"
    (tmp_path / "corpus.jsonl").write_bytes((red / "corpus.jsonl").read_bytes())
    build.write_selection(tmp_path)
    assert (tmp_path / "demo.jsonl").read_bytes() == (red / "demo.jsonl").read_bytes()


def test_a_corpus_holds_the_companies_of_its_recipe(tmp_path: Path) -> None:
    recipe = Recipe(members=3, non_members=2, red_providers=2, clients=1, documents=1, seed=4)
    corpus = make_corpus(recipe, tmp_path / "corpus", Silent())
    assert set(corpus.membership) == {company.name for company in companies_of(recipe)}


def test_a_value_is_found_word_by_word() -> None:
    assert find_value(_query("provider_name", "acme foods")) == slice(2, 4)
    assert find_value(_query("payment_terms", "net 30")) == slice(4, 6)
    assert find_value(_query("provider_name", "acme")) == slice(2, 3)
    assert find_value(_query("provider_name", "acme food")) is None


def test_a_cut_page_keeps_value_label_and_one_run_of_the_rest() -> None:
    page, value = _page(), slice(2, 4)
    others = [word for at, word in enumerate(WORDS) if at not in range(4)]
    seen = set()
    for seed in range(60):
        got = cut(page, value, 0.25, np.random.default_rng(seed))
        assert got.words[:4] == WORDS[2 - BEFORE : 4]
        run = list(got.words[4:])
        assert len(run) == round(0.25 * len(others))
        assert any(others[at : at + len(run)] == run for at in range(len(others)))
        assert tuple(WORDS[round(100 * left)] for left in got.boxes[:, 0]) == got.words
        seen.add(tuple(run))
    assert len(seen) == len(others) - len(run) + 1


def test_questions_are_drawn_anew_and_every_page_has_its_turn() -> None:
    pages = [_page(f"p{number}_1") for number in range(6)]
    short = _values(_page("short_1"))[:3]
    drawn = CutPages([query for page in pages for query in _values(page)] + short, Cutting(4, 0.2, 0.2), seed=1)
    epochs = [[drawn.draw(step, 8) for step in range(3 * epoch, 3 * epoch + 3)] for epoch in range(2)]
    for epoch in epochs:
        asked = [(query.document.id, query.key) for batch in epoch for query in batch]
        assert len(set(asked)) == len(asked) == 24
        assert {name for name, _ in asked} == {page.id for page in pages}
    first, second = ({(query.document.id, query.key): query for batch in epoch for query in batch} for epoch in epochs)
    assert any(first[one].question != second[one].question for one in first)
    assert any(first[one].document.words != second[one].document.words for one in first)
    assert all(query.question in templates(query.key) for query in first.values())
    again = drawn.draw(0, 8)
    assert [(q.id, q.question, q.document.words) for q in again] == [
        (q.id, q.question, q.document.words) for q in epochs[0][0]
    ]


def test_a_value_that_was_misread_is_no_lesson() -> None:
    queries = [*_values(_page()), _query("due_date", "2020-02-02")]
    assert {query.key for query, _ in CutPages(queries, Cutting(4), seed=1).pages[0]} == {q.key for q in queries[:4]}


def test_longer_pages_are_of_every_length_up_to_the_whole() -> None:
    pages = [query for number in range(6) for query in _values(_page(f"p{number}_1"))]
    drawn = CutPages(pages, Cutting(2, 0.2, 1.0), seed=1)
    lengths = [len(query.document.words) for step in range(60) for query in drawn.draw(step, 8)]
    assert max(lengths) == len(WORDS)
    assert len(set(lengths)) > 10


def test_names_are_asked_for_as_often_as_said() -> None:
    pages = [query for number in range(6) for query in _values(_page(f"p{number}_1"))]
    for weight in (1.0, 3.0):
        drawn = CutPages(pages, Cutting(1, names=weight), seed=1)
        asked = [query.key in NAMES for step in range(200) for query in drawn.draw(step, 6)]
        assert np.mean(asked) == pytest.approx(weight / (weight + 3), abs=0.04)


def test_the_rate_warms_up_stays_and_falls_to_nought_at_the_end() -> None:
    lessons = ReadingLessons(TrainSettings(steps=100, learning_rate=1e-3, warmup=10), decay=50)
    rates = [lessons.rate(step) for step in (0, 9, 10, 50, 75, 99)]
    assert rates == pytest.approx([1e-4, 1e-3, 1e-3, 1e-3, 5e-4, 2e-5])


def test_heads_begin_by_looking_at_the_pieces_before() -> None:
    network = new_vt5("small", 1000, seed=0)
    look_back(network)
    t5 = network.language_backbone
    for stack, distances in ((t5.encoder, (1, 2)), (t5.decoder, (1,))):
        scores = stack.block[0].layer[0].SelfAttention.compute_bias(6, 6)[0]
        for head, distance in enumerate(distances):
            assert scores[head].argmax(dim=1)[distance:].tolist() == list(range(6 - distance))
            assert scores[head, 3, 3 - distance] == BACK


@pytest.fixture(scope="module")
def lessons_corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lessons") / "corpus"
    make_corpus(
        Recipe(members=80, non_members=4, red_providers=0, documents=1, questions=100, seed=3), folder, Silent()
    )
    return folder


@pytest.mark.slow
def test_lessons_that_were_cut_off_go_on_to_the_same_weights(
    lessons_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = TrainSettings(steps=4, batch_size=8, warmup=2, save_every=2, validate_every=4, validation_queries=4)
    lessons = ReadingLessons(training, decay=2)
    teach_reading(lessons_corpus, tmp_path / "whole", lessons, Silent())

    def save_and_stop(*given: Any) -> None:
        save_state(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(loop, "save_state", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            teach_reading(lessons_corpus, tmp_path / "cut", lessons, Silent())
    assert not (tmp_path / "cut" / "model.safetensors").exists()
    with pytest.raises(UsageError):
        teach_reading(lessons_corpus, tmp_path / "cut", replace(lessons, cutting=Cutting(share=0.3)), Silent())
    teach_reading(lessons_corpus, tmp_path / "cut", lessons, Silent())
    assert fingerprint_files(tmp_path / "cut") == fingerprint_files(tmp_path / "whole")
    record = json.loads((tmp_path / "cut" / "training.json").read_text())
    assert record["data"]["documents"] == 80
    assert record["steps"] == 4
    assert [look["step"] for look in record["history"]] == [4]
    longer = replace(lessons, cutting=Cutting(most=1.0, names=3.0))
    teach_reading(lessons_corpus, tmp_path / "longer", longer, Silent(), start=tmp_path / "whole")
    after = json.loads((tmp_path / "longer" / "training.json").read_text())
    assert after["data"]["before"] == [record["data"]["sha256"]]
    assert fingerprint_files(tmp_path / "longer") != fingerprint_files(tmp_path / "whole")


@pytest.mark.slow
def test_lessons_leave_the_visual_encoder_as_it_was(lessons_corpus: Path, tmp_path: Path) -> None:
    training = TrainSettings(steps=2, batch_size=8, warmup=1, validation_queries=4)
    teach_reading(lessons_corpus, tmp_path / "out", ReadingLessons(training), Silent())
    after, before = load_vt5(tmp_path / "out").network.state_dict(), new_vt5("small", 1000, seed=0).state_dict()
    same = {name: torch.equal(after[name], before[name].half().float()) for name in before}
    assert all(equal for name, equal in same.items() if "image_model" in name)
    assert not same["language_backbone.shared.weight"]
