from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import pytest

from pfl_audit.attacks.questions.calls import form_batches
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.scrubbing.scrub import scrub
from pfl_audit.models.protocol import Capability, Guess, Response, Score
from pfl_audit.progress import Silent
from tests.core.fakes import FakeModel


@pytest.fixture
def store(tmp_path: Path) -> ResponseStore:
    return ResponseStore(tmp_path / "store.sqlite")


def test_every_query_is_asked_once_however_often_it_comes(store: ResponseStore, red: Corpus) -> None:
    model = FakeModel()
    engine = QueryEngine(model, store, Silent())
    first = engine.ask(red.queries, "x")
    again = QueryEngine(model, store, Silent()).ask(red.queries, "x")
    assert len(model.seen) == len(set(model.seen)) == len(red.queries)
    assert first.responses == again.responses
    assert (engine.asked, engine.reused) == (len(red.queries), 0)


def test_the_same_question_under_two_ids_is_asked_once(store: ResponseStore, red: Corpus) -> None:
    model = FakeModel()
    query = red.queries[0]
    answers = QueryEngine(model, store, Silent()).ask([query, replace(query, id="other")], "x")
    assert len(model.seen) == 1
    assert set(answers.responses) == {query.id, "other"}


def test_recorded_answers_go_by_id_even_where_two_pages_are_the_same(store: ResponseStore, red: Corpus) -> None:
    model = FakeModel(lambda query: Response(f"answer to {query.id}"))
    model.capabilities = frozenset({Capability.ANSWER})
    query = red.queries[0]
    answers = QueryEngine(model, store, Silent()).ask([query, replace(query, id="twin")], "x")
    assert answers.responses["twin"].answer == "answer to twin"
    assert answers[query].answer == f"answer to {query.id}"


def test_what_changes_the_input_is_asked_anew(store: ResponseStore, page: Callable[..., Document]) -> None:
    document = page("Acme", "Total", "42")
    query = Query("q", document, "Who?", ("acme",))
    variants = [
        query,
        replace(query, question="What?"),
        replace(query, answers=("other",)),
        replace(query, document=scrub(document, "acme").document),
        replace(query, document=replace(document, words=("Acme", "Total", "43"))),
        replace(query, document=replace(document, boxes=document.boxes * 0.5)),
    ]
    model = FakeModel()
    engine = QueryEngine(model, store, Silent())
    for variant in variants:
        engine.ask([variant], "x")
    assert engine.asked == len(variants)


def test_what_a_model_does_not_see_is_not_asked_anew(store: ResponseStore, page: Callable[..., Document]) -> None:
    query = Query("q", page("Acme"), "Who?", ("acme",))
    engine = QueryEngine(FakeModel(), store, Silent())
    engine.ask([query], "x")
    engine.ask([replace(query, document=replace(query.document, provider="Other", split="y"), key="z")], "x")
    assert engine.asked == 1


def test_changed_weights_never_reuse_an_answer(store: ResponseStore, red: Corpus) -> None:
    old = QueryEngine(FakeModel(name="old"), store, Silent()).ask(red.queries[:5], "x")
    new_model = FakeModel(lambda query: Response("new"), name="new")
    new = QueryEngine(new_model, store, Silent()).ask(red.queries[:5], "x")
    assert len(new_model.seen) == 5
    assert {response.answer for response in new.responses.values()} == {"new"}
    assert old.responses != new.responses


def test_batches_hold_similar_lengths_and_a_pages_questions_together(store: ResponseStore, red: Corpus) -> None:
    model = FakeModel()
    QueryEngine(model, store, Silent()).ask(red.queries, "x")
    assert max(model.batches) == 4
    by_id = {query.id: query for query in red.queries}
    pages = [by_id[name].document.id for name in model.seen]
    lengths = [len(by_id[name].document.words) for name in model.seen]
    assert len([1 for a, b in pairwise(pages) if a != b]) == len(set(pages)) - 1
    assert lengths == sorted(lengths, reverse=True)


def test_a_page_that_cannot_be_read_costs_only_its_own_questions(
    store: ResponseStore, page: Callable[..., Document], tmp_path: Path
) -> None:
    good = [Query(f"g{n}", page("a", name=f"good{n}_1"), "?", ("a",)) for n in range(5)]
    bad = Query("bad", page("a", name="bad_1"), "?", ("a",))
    assert bad.document.image is not None
    bad.document.image.path.write_bytes(b"no image")
    missing = Query("missing", page("a", name="missing_1"), "?", ("a",))
    assert missing.document.image is not None
    missing.document.image.path.unlink()
    answers = QueryEngine(FakeModel(), store, Silent()).ask([*good, bad, missing], "x")
    assert set(answers.responses) == {query.id for query in good}
    assert {problem.record for problem in answers.problems} == {"bad_1", "missing_1"}
    assert not any(str(tmp_path) in problem.reason for problem in answers.problems)


def beside(path: Path, queries: Sequence[Query], model: FakeModel) -> Callable[[], None]:
    """Another process with the same store: each call asks the next batch of the same queries there."""
    other = ResponseStore(path)
    asking = QueryEngine(model, other, Silent())
    keys = {query.id: asking._key(query) for query in queries}
    wanted = {keys[query.id]: query for query in queries}
    batches = iter(form_batches(model, wanted, wanted))

    def step() -> None:
        for batch in islice(batches, 1):
            other.put(dict(zip(batch, model.respond(list(batch.values())), strict=True)))

    return step


def test_what_another_process_answers_meanwhile_is_not_asked(store: ResponseStore, red: Corpus, tmp_path: Path) -> None:
    """The other answers everything while the first batch is asked here."""
    other = FakeModel()
    step = beside(tmp_path / "store.sqlite", red.queries, other)

    def answer(query: Query) -> Response:
        for _ in red.queries:
            step()
        return Response("x", 0.5, 1.0, 1)

    model = FakeModel(answer)
    engine = QueryEngine(model, store, Silent())
    answers = engine.ask(red.queries, "x")
    assert len(model.batches) == 1
    assert (engine.asked, engine.reused) == (model.batches[0], len(red.queries) - model.batches[0])
    assert set(answers.responses) == {query.id for query in red.queries}
    assert sum(found.answer == "x" for found in answers.responses.values()) == engine.asked


def test_two_processes_that_ask_the_same_meet_in_the_middle(store: ResponseStore, red: Corpus, tmp_path: Path) -> None:
    """The other is always a little ahead, at the same batch: this one goes on from the other end."""
    other = FakeModel()
    step = beside(tmp_path / "store.sqlite", red.queries, other)
    model = FakeModel(lambda query: Response("x", 0.5, 1.0, 1))
    respond = model.respond

    def together(queries: Sequence[Query]) -> list[Response]:
        step()
        return respond(queries)

    model.respond = together  # type: ignore[method-assign]
    engine = QueryEngine(model, store, Silent())
    answers = engine.ask(red.queries, "x")
    assert set(answers.responses) == {query.id for query in red.queries}
    twice = set(model.seen) & set(other.seen)
    assert len(twice) <= 2 * max(model.batches)  # the first batch, and the one at which they meet
    assert len(model.seen) > len(red.queries) / 3
    lengths = {query.id: len(query.document.words) for query in red.queries}
    more = [replace(query, question="What else?") for query in red.queries]
    asked = len(model.seen)
    engine.ask(more, "y")  # from the end at once: from the shortest page
    assert lengths[model.seen[asked]] == min(lengths.values()) < max(lengths.values())


def test_answers_of_finished_batches_survive_an_error(store: ResponseStore, red: Corpus) -> None:
    def explode(query: Query) -> Response:
        if len(model.seen) > 8:
            raise KeyboardInterrupt
        return Response("x")

    model = FakeModel(explode)
    with pytest.raises(KeyboardInterrupt):
        QueryEngine(model, store, Silent()).ask(red.queries, "x")
    assert len(store) == 8


class Comparing(FakeModel):
    """Finds longer values less likely."""

    def candidate_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        self.seen += list(values)
        return [Score(float(len(value)), len(value)) for value in values]


def test_answers_are_compared_once_and_never_taken_for_answers(store: ResponseStore, red: Corpus) -> None:
    model = Comparing()
    engine = QueryEngine(model, store, Silent())
    query = red.queries[0]
    assert engine.compares
    found = engine.candidates({query: ("a", "bcd", query.answers[0])}, "x")
    assert found == {
        query.id: [Score(1.0, 1), Score(3.0, 3), Score(float(len(query.answers[0])), len(query.answers[0]))]
    }
    again = QueryEngine(model, store, Silent())
    assert again.candidates({query: ("bcd", "e", "a")}, "x")[query.id] == [Score(3.0, 3), Score(1.0, 1), Score(1.0, 1)]
    assert model.seen == ["a", "bcd", query.answers[0], "e"]
    assert (again.asked, again.reused) == (1, 2)
    assert again.ask([query], "x")[query].answer == query.answers[0]  # it was scored, and not yet asked


def test_a_model_without_losses_cannot_compare(store: ResponseStore, red: Corpus) -> None:
    engine = QueryEngine(FakeModel(), store, Silent())
    assert not engine.compares
    with pytest.raises(TypeError, match="cannot compare"):
        engine.candidates({red.queries[0]: ("a",)}, "x")


class Guessing(FakeModel):
    """Gives as many answers as it may, the shorter the likelier."""

    def guess(self, queries: Sequence[Query], width: int) -> list[list[Guess]]:
        for query in queries:
            if query.document.image is not None:
                query.document.image.open()
        self.batches.append(len(queries))
        self.seen += [query.id for query in queries]
        return [[Guess("x" * (at + 1), float(at), at + 1) for at in range(width)] for _ in queries]


def test_likely_answers_are_asked_once_for_a_width_whatever_the_truth_is(store: ResponseStore, red: Corpus) -> None:
    model = Guessing()
    engine = QueryEngine(model, store, Silent())
    queries = red.queries[:6]
    found = engine.likely_answers(queries, 2, "x")
    assert engine.guesses
    assert found[queries[0].id] == [Guess("x", 0.0, 1), Guess("xx", 1.0, 2)]
    assert set(model.batches) == {2}  # of four rows a batch
    others = [replace(query, answers=("another",)) for query in queries]
    again = QueryEngine(model, store, Silent())
    assert again.likely_answers(others, 2, "x") == found
    assert (again.asked, again.reused, len(model.seen)) == (0, 6, 6)
    again.likely_answers(others, 3, "x")
    assert (again.asked, set(model.batches)) == (6, {1, 2})


def test_likely_answers_of_a_page_that_cannot_be_read_are_left_out(
    store: ResponseStore, page: Callable[..., Document]
) -> None:
    good, bad = (Query(name, page("a", name=f"{name}_1"), "?", ("a",)) for name in ("good", "bad"))
    assert bad.document.image is not None
    bad.document.image.path.write_bytes(b"no image")
    engine = QueryEngine(Guessing(), store, Silent())
    assert set(engine.likely_answers([good, bad], 2, "x")) == {"good"}
    assert {problem.record for problem in engine.problems} == {"bad_1"}


@pytest.mark.parametrize("kept", ['{"guesses": "x"}', '{"guesses": [{"answer": "a", "loss": NaN, "tokens": 1}]}', "{}"])
def test_likely_answers_that_are_damaged_in_the_store_are_asked_again(
    store: ResponseStore, red: Corpus, kept: str
) -> None:
    model = Guessing()
    found = QueryEngine(model, store, Silent()).likely_answers(red.queries[:1], 2, "x")
    store.write("UPDATE records SET value = ?", [(kept,)])
    assert QueryEngine(model, store, Silent()).likely_answers(red.queries[:1], 2, "x") == found
    assert len(model.seen) == 2


def test_a_model_with_one_answer_has_no_likely_ones(store: ResponseStore, red: Corpus) -> None:
    engine = QueryEngine(FakeModel(), store, Silent())
    assert not engine.guesses
    with pytest.raises(TypeError, match="one answer"):
        engine.likely_answers(red.queries[:1], 2, "x")
