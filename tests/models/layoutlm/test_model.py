import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.models.layoutlm.family import LAYOUTLM, LAYOUTLMV3
from pfl_audit.models.layoutlm.model import LayoutLmQa
from pfl_audit.models.layoutlm.spans import LONGEST_ANSWER
from pfl_audit.models.protocol import Capability, DocumentModel
from pfl_audit.progress import Silent

from ...oracles import layoutlm as oracle
from .conftest import LONGEST

Make = Callable[[str], Path]
KINDS = ("v1", "v1-bpe", "v3", "v3-blind")
FIXTURE = Path(__file__).parents[3] / "fixtures" / "red"


def opened(make_qa: Make, kind: str) -> LayoutLmQa:
    return LayoutLmQa(make_qa(kind), 1 if kind.startswith("v1") else 3)


@pytest.fixture
def queries(red: Corpus, page: Callable[..., Document]) -> list[Query]:
    """Long pages, a short one, an answer that is not there, one that is there twice."""
    some = [query for query in red.queries[::7] if query.answers[0].strip()][:4]
    short = page("Total", "42.10", "Acme", "Media", "acme", "media")
    return [
        *some,
        Query("short", short, "Who sends it?", ("ACME media",)),
        Query("absent", short, "What is due?", ("tomorrow",)),
        replace(some[0], id="absent-long", answers=("not on the page",)),
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS)
def test_answers_as_transformers_does_one_window_at_a_time(make_qa: Make, queries: list[Query], kind: str) -> None:
    model = opened(make_qa, kind)
    several = 0
    for query, response in zip(queries, model.respond(queries), strict=True):
        said = oracle.answer(make_qa(kind), kind, query, LONGEST, LONGEST_ANSWER)
        assert response.answer == said.answer
        assert response.confidence == pytest.approx(said.confidence, rel=1e-3)
        assert response.loss == pytest.approx(said.loss, abs=1e-4)
        assert response.tokens == 2
        assert len(model.inputs.passages(query)) == said.windows
        several += said.windows > 1
    assert several >= 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_response_does_not_depend_on_the_batch(make_qa: Make, queries: list[Query], kind: str) -> None:
    model = opened(make_qa, kind)
    for query, response in zip(queries, model.respond(queries), strict=True):
        (alone,) = opened(make_qa, kind).respond([query])
        assert alone.answer == response.answer
        assert alone.loss == pytest.approx(response.loss, abs=1e-4)
        assert alone.confidence == pytest.approx(response.confidence, rel=1e-3)


def test_many_windows_go_in_several_passes(
    make_qa: Make, queries: list[Query], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = opened(make_qa, "v3")
    expected = model.respond(queries)
    monkeypatch.setattr(model, "batch_size", lambda cost: 2)
    for before, after in zip(expected, model.respond(queries), strict=True):
        assert after.answer == before.answer
        assert after.loss == pytest.approx(before.loss, abs=1e-4)


def test_it_is_a_document_model(make_qa: Make, queries: list[Query]) -> None:
    model = opened(make_qa, "v3")
    assert isinstance(model, DocumentModel)
    assert model.capabilities == {Capability.ANSWER, Capability.CONFIDENCE, Capability.LOSS, Capability.LIVE}
    facts = model.describe()
    assert (facts["family"], facts["sha256"]) == ("layoutlmv3", model.fingerprint)
    assert facts["parameters"] == sum(tensor.numel() for tensor in model.network.parameters())
    assert model.cost(queries[0]) == LONGEST + 5
    assert model.cost(queries[4]) < LONGEST
    assert 1 == model.batch_size(10**6) <= model.batch_size(512) < model.batch_size(16)


def test_families_are_told_apart(make_qa: Make) -> None:
    head = frozenset({"qa_outputs.weight"})
    assert LAYOUTLM.recognises({"model_type": "layoutlm"}, head)
    assert LAYOUTLMV3.recognises({"model_type": "layoutlmv3"}, frozenset({"qa_outputs.out_proj.weight"}))
    assert not LAYOUTLMV3.recognises({"model_type": "layoutlm"}, head)
    assert not LAYOUTLM.recognises({"model_type": "layoutlm"}, frozenset({"classifier.weight", "cls.predictions.bias"}))
    assert not LAYOUTLM.recognises({}, head)
    assert LAYOUTLM.open(make_qa("v1"), device="cpu").family == "layoutlm"
    assert LAYOUTLMV3.open(make_qa("v3"), device="cpu").family == "layoutlmv3"


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_without_words_is_answered_with_nothing(make_qa: Make, page: Callable[..., Document], kind: str) -> None:
    model = opened(make_qa, kind)
    (response,) = model.respond([Query("q", page(), "Who?", ("Acme",))])
    assert response.answer == ""
    assert response.confidence is not None
    assert response.loss == pytest.approx(-torch.tensor(response.confidence).log().item() / 2, abs=1e-5)


def test_a_question_longer_than_the_input_is_cut(make_qa: Make, page: Callable[..., Document]) -> None:
    model = opened(make_qa, "v1")
    query = Query("q", page(*["Total"] * 99), "total " * 200, ("total",))
    passages = model.inputs.passages(query)
    assert max(len(passage.ids) for passage in passages) == LONGEST
    assert {passage.offset for passage in passages} == {LONGEST // 2 + 2}
    (response,) = model.respond([query])
    assert response.answer


def test_the_image_counts_where_the_model_sees(make_qa: Make, red: Corpus, page: Callable[..., Document]) -> None:
    seen = replace(red.queries[0], document=replace(red.queries[0].document, image=page("x").image))
    bare = replace(seen, document=replace(seen.document, image=None))
    for kind, differs in (("v3", True), ("v3-blind", False), ("v1", False)):
        one, other = opened(make_qa, kind).respond([seen, bare])
        assert (one.loss != pytest.approx(other.loss, abs=1e-6)) == differs


def test_an_image_that_cannot_be_read(make_qa: Make, red: Corpus, tmp_path: Path) -> None:
    query = replace(red.queries[0], document=replace(red.queries[0].document, image=PageImage(tmp_path / "no.png")))
    with pytest.raises(UnanswerableError, match="there is no such file"):
        opened(make_qa, "v3").respond([query])
    opened(make_qa, "v3-blind").respond([query])


def test_every_image_is_opened_once_in_a_batch(make_qa: Make, red: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    opens = PageImage.open
    monkeypatch.setattr(PageImage, "open", lambda self: seen.append(self.path) or opens(self))
    queries = list(red.queries[:6])
    opened(make_qa, "v3").respond(queries)
    assert len(seen) == len({query.document.id for query in queries})


@pytest.mark.parametrize("kind", ["v1", "v3"])
def test_through_the_engine_on_the_fixture(make_qa: Make, tmp_path: Path, kind: str) -> None:
    queries = open_corpus(FIXTURE, "red").queries[:6]
    store = ResponseStore(tmp_path / "store.sqlite")
    engine = QueryEngine(opened(make_qa, kind), store, Silent())
    answers = engine.ask(queries, "test")
    assert (len(answers.responses), engine.asked, answers.problems) == (6, 6, [])
    again = QueryEngine(opened(make_qa, kind), store, Silent())
    assert again.ask(queries, "test").responses == answers.responses
    assert again.asked == 0
    for query in queries:
        response = answers[query]
        assert response.answer in " ".join(query.document.words)
        assert response.confidence is not None
        assert 0 < response.confidence <= 1


def test_a_model_that_computes_nothing(make_qa: Make, queries: list[Query]) -> None:
    model = opened(make_qa, "v1")
    with torch.no_grad():
        model.network.qa_outputs.weight.fill_(1e38)
    with pytest.raises(AuditError, match="NaN or infinite"):
        model.respond(queries)


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("v1", "vocab.txt", lambda text: text + "extra\n"),
        ("v1-bpe", "vocab.json", lambda text: text + "\n"),
        ("v1-bpe", "merges.txt", lambda text: "#version: 0.3\n" + text),
        ("v1-bpe", "tokenizer_config.json", lambda text: '{"model_max_length": 100}'),
    ],
)
def test_the_fingerprint_follows_the_tokenizer(
    make_qa: Make, tmp_path: Path, kind: str, name: str, change: Callable[[str], str]
) -> None:
    folder = shutil.copytree(make_qa(kind), tmp_path / kind)
    before = LayoutLmQa(folder, 1).fingerprint
    (folder / name).write_text(change((folder / name).read_text()))
    assert LayoutLmQa(folder, 1).fingerprint != before
