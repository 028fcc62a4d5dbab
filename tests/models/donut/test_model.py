import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
import torch
from safetensors.torch import load_file, save_file

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.models.donut.family import FAMILY
from pfl_audit.models.donut.model import DonutModel
from pfl_audit.models.donut.network import LM_HEAD
from pfl_audit.models.protocol import QUESTIONS, Capability, DocumentModel, GuessingModel
from pfl_audit.progress import Silent

from ...oracles import beam as beams
from ...oracles import donut as oracle
from .conftest import LONGEST

Make = Callable[[str], Path]
KINDS = ("ours", "theirs")
FIXTURE = Path(__file__).parents[3] / "fixtures" / "red"


@pytest.fixture
def queries(red: Corpus, page: Callable[..., Document]) -> list[Query]:
    """Upright pages, one that lies, one without an image; an answer of nothing, characters without a piece."""
    lying = page("x")
    some = [query for query in red.queries if len(query.answers[0]) < 16][::9][:2]
    return [
        *some,
        replace(some[0], id="same-page", question="Who?", answers=("it is mé",)),
        Query("lying", lying, "What is the total at the very end?", ("42.10",)),
        Query("blank", replace(lying, image=None), "Who sends \u65e5 it?", ("",)),
    ]


def same_as_oracle(folder: Path, queries: list[Query]) -> list[oracle.Said]:
    every = list(oracle.answer(folder, queries))
    for said, response in zip(every, DonutModel(folder).respond(queries), strict=True):
        assert response.answer == said.answer
        assert response.confidence == pytest.approx(said.confidence, rel=1e-3)
        assert response.loss == pytest.approx(said.loss, abs=1e-4)
        assert response.tokens == said.tokens == len(response.token_losses or ())
        assert fmean(response.token_losses or ()) == pytest.approx(response.loss, rel=1e-5)
    return every


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", KINDS)
def test_answers_as_transformers_does_one_query_at_a_time(make_donut: Make, queries: list[Query], kind: str) -> None:
    every = same_as_oracle(make_donut(kind), queries)
    assert len({said.answer for said in every}) == len(every)


@pytest.mark.parametrize("end", ["</s_answer>", "</s>"])
def test_an_answer_stops_at_either_end(make_donut: Make, queries: list[Query], tmp_path: Path, end: str) -> None:
    """The output row of a token that an answer holds goes to an end."""
    folder = Path(shutil.copytree(make_donut("theirs"), tmp_path / "ckpt"))
    (before,) = oracle.answer(folder, queries[:1])
    token = next(token for token in before.spoken if token != before.spoken[0])
    state = load_file(folder / "model.safetensors")
    both = [token, oracle.tokenizer_of(folder).id(end)]
    state[LM_HEAD][both] = state[LM_HEAD][both[::-1]]
    save_file(state, folder / "model.safetensors")
    every = same_as_oracle(folder, queries)
    assert every[0].spoken == before.spoken[: before.spoken.index(token)]
    assert len({len(said.spoken) for said in every}) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_response_does_not_depend_on_the_batch(make_donut: Make, queries: list[Query], kind: str) -> None:
    model = DonutModel(make_donut(kind))
    for query, response in zip(queries, model.respond(queries), strict=True):
        (alone,) = DonutModel(make_donut(kind)).respond([query])
        assert alone.answer == response.answer
        assert alone.loss == pytest.approx(response.loss, abs=1e-5)
        assert alone.confidence == pytest.approx(response.confidence, rel=1e-4)
        assert alone.tokens == response.tokens


def test_answers_are_compared_as_they_would_be_scored_alone(make_donut: Make, queries: list[Query]) -> None:
    model = DonutModel(make_donut("ours"))
    values = [query.answers[0] for query in queries[:3]]
    for value, score in zip(values, model.candidate_losses(queries[0], values), strict=True):
        (alone,) = model.respond([replace(queries[0], answers=(value,))])
        assert (score.loss, score.tokens) == (pytest.approx(alone.loss, abs=1e-5), alone.tokens)


@torch.no_grad()
def test_its_guesses_are_those_of_a_beam_without_a_cache(make_donut: Make, queries: list[Query]) -> None:
    model = DonutModel(make_donut("ours"))
    assert isinstance(model, GuessingModel)
    network, tokenizer = model.network, model.inputs.tokenizer
    ends = [tokenizer.id("</s_answer>"), tokenizer.id("</s>")]
    for query, guesses in zip(queries, model.guess(queries, 3), strict=True):
        page = model.encoded_pages([query.document])
        prompt = model.inputs.prompt(query.question)

        def after(prefix: tuple[int, ...], page=page, prompt=prompt) -> list[float]:  # type: ignore[no-untyped-def]
            ids = torch.tensor([[*prompt, *prefix]])
            out = network.decoder(input_ids=ids, encoder_hidden_states=page, use_cache=False)
            return out.logits[0, -1].double().log_softmax(dim=-1).tolist()

        found = beams.narrow(after, 3, ends, LONGEST - len(prompt), barred=(tokenizer.id("<unk>"),))
        assert {guess.answer for guess in guesses} == {tokenizer.decode(list(tokens)) for tokens, _ in found}
        scores = model.candidate_losses(query, [guess.answer for guess in guesses])
        assert [guess.loss for guess in guesses] == pytest.approx([score.loss for score in scores], abs=1e-5)
        assert [guess.loss for guess in guesses] == sorted(guess.loss for guess in guesses)


def test_it_is_a_document_model(make_donut: Make, queries: list[Query]) -> None:
    model = DonutModel(make_donut("ours"))
    assert isinstance(model, DocumentModel)
    assert model.capabilities == {*QUESTIONS, Capability.GUESSES}
    facts = model.describe()
    assert (facts["family"], facts["sha256"]) == ("donut", model.fingerprint)
    assert facts["parameters"] == sum(tensor.numel() for tensor in model.network.parameters())
    assert facts["notes"] == [
        "page: 48 x 64 pixels, 48 tokens",
        f"prompt and answer: {LONGEST} tokens at most",
        "output layer: tied to the embedding",
    ]
    assert model.cost(queries[0]) == 48 + len(model.inputs.prompt(queries[0].question))
    assert 1 == model.batch_size(10**9) <= model.batch_size(10**5) < model.batch_size(64) <= 128
    assert model.respond([]) == []
    assert DonutModel(make_donut("theirs")).describe()["notes"][2] == "output layer: a tensor of its own"


@pytest.mark.parametrize("kind", KINDS)
def test_the_family_is_told_apart(make_donut: Make, kind: str) -> None:
    config = json.loads((make_donut(kind) / "config.json").read_text())
    assert FAMILY.recognises(config, frozenset())
    assert not FAMILY.recognises({**config, "model_type": "t5"}, frozenset())
    assert not FAMILY.recognises({**config, "decoder": {"model_type": "trocr"}}, frozenset())
    assert not FAMILY.recognises({**config, "encoder": 3}, frozenset())
    assert FAMILY.open(make_donut(kind), device="cpu").family == "donut"


def test_a_page_is_looked_at_once(make_donut: Make, queries: list[Query], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []
    opens = PageImage.open
    monkeypatch.setattr(PageImage, "open", lambda self: seen.append(self.path) or opens(self))
    model = DonutModel(make_donut("ours"))
    several = [queries[0], queries[2], replace(queries[0], id="again"), queries[3]]
    expected = model.respond(several)
    assert len(seen) == 2
    assert model.respond(several[3:]) == model.respond(several[3:])
    assert len(seen) == 2
    assert model.respond(several)[0].answer == expected[0].answer
    assert len(seen) == 3


def test_the_picture_counts_and_the_words_do_not(make_donut: Make, queries: list[Query]) -> None:
    document = queries[0].document
    bare = replace(queries[0], document=replace(document, image=None))
    mute = replace(queries[0], document=replace(document, words=(), boxes=document.boxes[:0]))
    one, other, same = DonutModel(make_donut("ours")).respond([queries[0], bare, mute])
    assert one == same
    assert one.loss != pytest.approx(other.loss, abs=1e-4)


def test_an_image_that_cannot_be_read(make_donut: Make, queries: list[Query], tmp_path: Path) -> None:
    document = replace(queries[0].document, image=PageImage(tmp_path / "no.png"))
    with pytest.raises(UnanswerableError, match="there is no such file"):
        DonutModel(make_donut("ours")).respond([queries[1], replace(queries[0], document=document)])


def test_questions_and_answers_longer_than_there_is_place(make_donut: Make, queries: list[Query]) -> None:
    model = DonutModel(make_donut("ours"))
    long = replace(queries[0], question="total " * 200, answers=("total " * 200,))
    (response,) = model.respond([long])
    assert len(model.inputs.prompt(long.question)) == LONGEST // 2 + 4
    assert response.tokens == LONGEST - LONGEST // 2 - 4
    assert len(response.answer) > 0


@pytest.mark.parametrize("kind", KINDS)
def test_through_the_engine_on_the_fixture(make_donut: Make, tmp_path: Path, kind: str) -> None:
    queries = open_corpus(FIXTURE, "red").queries[:6]
    store = ResponseStore(tmp_path / "store.sqlite")
    engine = QueryEngine(DonutModel(make_donut(kind)), store, Silent())
    answers = engine.ask(queries, "test")
    assert (len(answers.responses), engine.asked, answers.problems) == (6, 6, [])
    again = QueryEngine(DonutModel(make_donut(kind)), store, Silent())
    assert again.ask(queries, "test").responses == answers.responses
    assert again.asked == 0
    assert all(0 < (answers[query].confidence or 0) <= 1 and answers[query].loss for query in queries)


def test_a_model_that_computes_nothing(make_donut: Make, queries: list[Query]) -> None:
    model = DonutModel(make_donut("theirs"))
    with torch.no_grad():
        model.network.decoder.lm_head.weight.fill_(1e38)
    with pytest.raises(AuditError, match="NaN or infinite"):
        model.respond(queries)


def test_the_fingerprint_follows_the_pixels_wherever_they_stand(make_donut: Make, tmp_path: Path) -> None:
    folder = shutil.copytree(make_donut("ours"), tmp_path / "ckpt")
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").unlink()
    known = set()
    for turn in (False, True):
        content = {"image_processor": {**settings, "do_align_long_axis": turn}}
        (folder / "processor_config.json").write_text(json.dumps(content))
        known.add(DonutModel(folder).fingerprint)
    assert len(known) == 2


def test_the_gradient_has_a_gradient(make_donut: Make) -> None:
    """Gradient inversion descends on the distance between two gradients."""
    model = DonutModel(make_donut("ours"))
    example = model.inputs.example("Who?", "me")
    pixels = torch.rand(1, 3, 64, 48, requires_grad=True)
    loss = model.network(
        pixel_values=pixels,
        decoder_input_ids=torch.tensor([example.ids]),
        labels=torch.tensor([example.labels]),
    ).loss
    names, parameters = zip(*model.network.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters, create_graph=True)
    (second,) = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), pixels)
    assert len(names) == len(set(names)) > 50
    assert bool((second.abs() > 0).all())
