"""Training on pages without the value: what is drawn, what is trained, and where it is refused."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from pfl_audit.cli.main import run
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.scrubbing.normalization import normalize_text
from pfl_audit.errors import UsageError
from pfl_audit.metrics.answers import accuracy, anls
from pfl_audit.models.question_training import Example
from pfl_audit.models.samples import IGNORED
from pfl_audit.models.vt5.checkpoint import load_vt5
from pfl_audit.models.vt5.training import TrainableVt5, open_training
from pfl_audit.progress import Silent
from pfl_audit.training.batching import BatchOrder
from pfl_audit.training.central import train_central
from pfl_audit.training.parts import split_queries
from pfl_audit.training.refusals import REFUSAL, Refusals, draw_refusals, most_refusals, without_answers
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.start import Training
from pfl_audit.training.state import RunState
from pfl_audit.training.trainable import choose_trainable
from tests.conftest import checkpoints

Make = Callable[[int], Path]
SHORT = TrainSettings(
    steps=6,
    batch_size=8,
    learning_rate=1e-3,
    warmup=2,
    save_every=2,
    validate_every=3,
    validation_queries=4,
    refuse=0.5,
)


@pytest.fixture(scope="module")
def make_checkpoint(corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Make:
    """With few pieces: every batch of these lengths has enough pages whose answer can be removed."""
    return checkpoints(corpus_folder, tmp_path_factory.mktemp("few-pieces"), 150)


@pytest.fixture(scope="module")
def blue(corpus_folder: Path) -> Corpus:
    return open_corpus(corpus_folder, "blue")


@pytest.fixture(scope="module")
def queries(blue: Corpus) -> list[Query]:
    return split_queries(blue)[0]


@pytest.fixture
def model(make_checkpoint: Make) -> TrainableVt5:
    return open_training(make_checkpoint(0))


def draw(queries: list[Query], model: TrainableVt5, settings: TrainSettings = SHORT) -> Refusals:
    return draw_refusals(queries, model.can_write, order(queries, model, settings), settings, Silent())


def order(queries: list[Query], model: TrainableVt5, settings: TrainSettings) -> BatchOrder:
    return BatchOrder([model.length(query) for query in queries], settings.batch_size, settings.seed)


def batches(queries: list[Query], model: TrainableVt5, settings: TrainSettings) -> list[list[int]]:
    return [order(queries, model, settings)(step) for step in range(settings.steps)]


def test_draws_follow_the_seed(queries: list[Query], model: TrainableVt5) -> None:
    first, again, other = draw(queries, model), draw(queries, model), draw(queries, model, replace(SHORT, seed=1))
    assert first.steps == again.steps != other.steps
    assert [query.document.words for query in first.queries] == [query.document.words for query in again.queries]
    # The first steps of a longer run are those of a shorter one.
    longer = draw(queries, model, replace(SHORT, steps=20))
    assert {step: set(longer.steps[step]) for step in first.steps} == {s: set(d) for s, d in first.steps.items()}


def test_places_in_a_batch_follow_seed_and_step(queries: list[Query], model: TrainableVt5) -> None:
    fit = [query for query in queries if without_answers(query) is not None]

    def places(seed: int) -> list[set[int]]:
        settings = replace(SHORT, seed=seed)
        dealt = batches(fit, model, settings)
        steps = draw(fit, model, settings).steps
        return [{batch.index(query) for query in steps[step]} for step, batch in enumerate(dealt)]

    assert places(0) != places(1)
    assert len({frozenset(chosen) for chosen in places(0)}) > 1


@pytest.mark.slow
def test_the_share_is_kept_in_every_step(queries: list[Query], model: TrainableVt5) -> None:
    fit = [query for query in queries if without_answers(query) is not None]
    settings = replace(SHORT, steps=400, batch_size=5, refuse=0.3)
    dealt = batches(fit, model, settings)
    steps = draw(fit, model, settings).steps
    counts = [len(steps[step]) for step in range(settings.steps)]
    full = [count for count, batch in zip(counts, dealt, strict=True) if len(batch) == 5]
    assert set(full) == {1, 2}
    assert abs(sum(full) / len(full) - 1.5) < 4 * 0.5 / len(full) ** 0.5
    assert all(set(steps[step]) <= set(batch) for step, batch in enumerate(dealt))


def test_a_query_whose_value_cannot_be_taken_off_is_never_refused(queries: list[Query], model: TrainableVt5) -> None:
    fit = {number for number, query in enumerate(queries) if without_answers(query) is not None}
    assert 0 < len(fit) < len(queries)
    settings = replace(SHORT, steps=30, refuse=1.0)
    steps = draw(queries, model, settings).steps
    for step, batch in enumerate(batches(queries, model, settings)):
        assert set(steps[step]) == set(batch) & fit


def test_the_page_of_a_refusal_does_not_hold_the_value(queries: list[Query], model: TrainableVt5) -> None:
    refusals = draw(queries, model, replace(SHORT, steps=30, refuse=1.0))
    taken = {number: query for drawn in refusals.steps.values() for query, number in drawn.items()}
    assert set(taken) == set(range(len(queries), len(queries) + len(refusals.queries)))
    for number, whole in taken.items():
        refused, before = refusals.queries[number - len(queries)], queries[whole]
        assert refused.answers == (REFUSAL,)
        assert (refused.question, refused.document.provider) == (before.question, before.document.provider)
        text = normalize_text("".join(refused.document.words))
        assert not any(normalize_text(answer) in text for answer in before.answers)
        assert len(refused.document.words) < len(before.document.words)
        assert refused.document.image is not None
        assert refused.document.image.blurred


def test_something_that_points_to_the_value_leaves_the_query_out(page: Callable[..., Document]) -> None:
    def asked(*words: str, answers: tuple[str, ...] = ("Greenwood Stores",)) -> Query:
        return Query("q", page(*words), "Who is the vendor?", answers, "provider_name")

    assert without_answers(asked("Greenwood", "Stores", "Total")) is not None
    assert without_answers(asked("Total", "4.00")) is None  # the value is not there
    assert without_answers(asked("Greenwood", "Stores", "www.grnwdstrs.com")) is None  # an abbreviated domain
    both = ("Greenwood Stores", "Ridgeway Media")
    assert without_answers(asked("Greenwood", "Stores", "Ridgeway", "Media", answers=both)) is None


def test_a_scrubbed_page_is_encoded_as_a_page_of_its_own(
    queries: list[Query], model: TrainableVt5, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = draw(queries, model)
    asked = [*queries, *refusals.queries]
    examples = model.examples(asked, Silent())
    given: list[torch.Tensor] = []
    monkeypatch.setattr(TrainableVt5, "batch_loss", lambda self, some, pages: given.append(pages))
    for drawn in refusals.steps.values():
        for whole, refused in drawn.items():
            examples.loss([whole, refused])
            features = given[-1]
            assert not torch.equal(features[0], features[1])
            expected = model.page_features(model.page(asked[refused].document)[None])[0]
            torch.testing.assert_close(features[1], expected)


def test_queries_for_the_same_value_share_a_scrubbed_page(queries: list[Query], model: TrainableVt5) -> None:
    number = next(number for number, query in enumerate(queries) if without_answers(query) is not None)
    twice = [queries[number], replace(queries[number], id="again", question="And who is it?")]
    refusals = draw(twice, model, replace(SHORT, steps=1, batch_size=2, refuse=1.0))
    first, second = refusals.queries
    assert first.document is second.document
    assert first.document.id != queries[number].document.id


def trained(
    folder: Path, out: Path, blue: Corpus, settings: TrainSettings, progress: Silent | None = None
) -> tuple[dict[str, torch.Tensor], RunState]:
    model = open_training(folder)
    train, valid = split_queries(blue)
    training = Training(model, choose_trainable(model), train, valid, progress or Silent())
    state = train_central(training, settings, out, {})
    return {name: tensor.clone() for name, tensor in model.network.state_dict().items()}, state


def test_refusals_are_what_is_trained(
    make_checkpoint: Make, blue: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = load_vt5(make_checkpoint(0)).tokenizer
    said: list[int] = []
    batch_loss = TrainableVt5.batch_loss

    def watched(self: TrainableVt5, examples: Sequence[Example], pages: torch.Tensor) -> torch.Tensor:
        answers = [tokenizer.decode([t for t in e.tensors["labels"].tolist() if t != IGNORED]) for e in examples]
        said.append(answers.count(REFUSAL))
        return batch_loss(self, examples, pages)

    monkeypatch.setattr(TrainableVt5, "batch_loss", watched)
    _, state = trained(make_checkpoint(0), tmp_path, blue, SHORT)
    assert said == [4] * 6
    assert state.refusals == 24


@pytest.mark.slow
def test_a_run_that_was_cut_refuses_the_same(make_checkpoint: Make, blue: Corpus, tmp_path: Path) -> None:
    whole, state = trained(make_checkpoint(0), tmp_path / "whole", blue, SHORT)

    class Cut(Silent):
        def say(self, text: str) -> None:
            if text.startswith("step 3"):
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(make_checkpoint(0), tmp_path / "cut", blue, SHORT, Cut())
    resumed, again = trained(make_checkpoint(0), tmp_path / "cut", blue, SHORT)
    assert (again.step, again.refusals) == (state.step, state.refusals) == (6, 24)
    for name, tensor in whole.items():
        torch.testing.assert_close(resumed[name], tensor, atol=0, rtol=0)
    with pytest.raises(UsageError, match="other data or settings"):
        trained(make_checkpoint(0), tmp_path / "cut", blue, replace(SHORT, refuse=0.25))


def test_share_0_is_training_as_it_was(blue: Corpus, model: TrainableVt5) -> None:
    settings = replace(SHORT, refuse=0.0)
    assert "refuse" not in settings.to_dict()  # the identity of runs of earlier versions
    assert SHORT.to_dict() == {**settings.to_dict(), "refuse": 0.5}
    assert draw(list(blue.queries), model, settings) == Refusals()
    # The order of the batches of version 0.1.
    assert [BatchOrder([5, 3, 9, 1, 7, 2], 2, seed=4)(step) for step in range(4)] == [[3, 5], [1, 0], [4, 2], [3, 5]]


def test_an_estimate_counts_the_scrubbed_pages() -> None:
    settings = replace(SHORT, steps=10, batch_size=8, refuse=0.3)
    assert most_refusals(settings, queries=100) == 24
    assert most_refusals(settings, queries=9) == 9
    assert most_refusals(replace(settings, refuse=0.0), queries=9) == 0


def test_a_tokenizer_that_cannot_write_the_refusal(queries: list[Query], model: TrainableVt5) -> None:
    class Unfit:
        encode = staticmethod(lambda text: (2,))
        encode_all = staticmethod(lambda texts: [(2,) for _ in texts])
        decode = staticmethod(lambda ids: "")

    model.inputs.tokenizer = Unfit()  # type: ignore[assignment]
    with pytest.raises(UsageError, match="cannot write 'not on this page'"):
        draw(queries, model)
    assert draw(queries, model, replace(SHORT, refuse=0.0)) == Refusals()


def test_a_refusal_is_a_wrong_answer(blue: Corpus, red: Corpus) -> None:
    for query in (*blue.queries, *red.queries):
        assert accuracy(REFUSAL, query.answers) == 0.0
        assert anls(REFUSAL, query.answers) == 0.0


def arguments(corpus: Path, start: Path, out: Path, *more: str) -> list[str]:
    return ["train", "--data", str(corpus), "--from", str(start), "--out", str(out), "--steps", "2", "-q", *more]


@pytest.mark.slow
def test_the_record_says_how_many(make_checkpoint: Make, corpus_folder: Path, tmp_path: Path) -> None:
    given = arguments(corpus_folder, make_checkpoint(0), tmp_path / "some", "--batch-size", "4", "--refuse", "0.5")
    assert run(given) == 0
    record = json.loads((tmp_path / "some/training.json").read_text())
    assert record["refusals"] == {"share": 0.5, "trained": 4}
    assert record["identity"]["settings"]["refuse"] == 0.5
    assert run(given) == 0  # finished: nothing is trained again
    assert run([*given[:-1], "0.25"]) == 4
    assert run(arguments(corpus_folder, make_checkpoint(0), tmp_path / "none")) == 0
    assert "refus" not in (tmp_path / "none/training.json").read_text()


@pytest.mark.parametrize("share", ["-0.1", "1.5", "nan", "inf"])
def test_a_share_that_is_none_is_one_line(
    share: str, make_checkpoint: Make, corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments(corpus_folder, make_checkpoint(0), tmp_path / "x", "--refuse", share)) == 4
    said = capsys.readouterr().err
    assert "refuse" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "more", [["--mode", "fl"], ["--mode", "central-dp"], ["--mode", "fl-dp"], ["--task", "mlm"]], ids=" ".join
)
def test_what_cannot_refuse_says_so_in_one_line(
    more: list[str], make_checkpoint: Make, corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["train", "--data", str(corpus_folder), "--from", str(make_checkpoint(0)), "--out", str(tmp_path / "x")]
    assert run([*given, "-q", "--refuse", "0.2", *more]) == 4
    said = capsys.readouterr().err
    assert "--refuse means nothing with" in said
    assert said.count("\n") == 1
    assert not (tmp_path / "x").exists()
