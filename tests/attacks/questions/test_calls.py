"""What another process gives back is checked before it is stored."""

from collections.abc import Sequence
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.attacks.questions.calls import are_guesses, checked, is_response, is_score
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.failures import failure
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Query
from pfl_audit.errors import AuditError, WorkersError
from pfl_audit.models.calls import Reply
from pfl_audit.models.protocol import Guess, Response, Score
from pfl_audit.progress import Silent
from tests.core.fakes import FakeModel

WHOLE = Response("x", 0.5, 1.0, 3)


@pytest.mark.parametrize(
    "given",
    [
        None,
        "text",
        Response(3, 0.5, 1.0, 3),  # type: ignore[arg-type]
        Response("x" * (1 << 21), 0.5, 1.0, 3),
        Response("x", 1.5, 1.0, 3),
        Response("x", nan, 1.0, 3),
        Response("x", 0.5, inf, 3),
        Response("x", 0.5, 1.0, -1),
        Response("x", 0.5, 1.0, True),
    ],
)
def test_no_response(given: object) -> None:
    assert is_response(WHOLE)
    assert not is_response(given)
    with pytest.raises(WorkersError, match="something else than answers"):
        checked([WHOLE, given], 2, is_response)


def test_no_scores_and_no_guesses() -> None:
    assert is_score(Score(1.0, 2))
    assert are_guesses([Guess("x", 1.0, 2)])
    assert not is_score(Score(nan, 2))
    assert not are_guesses([Guess("x", 1.0, 2), Score(1.0, 2)])
    assert not are_guesses(Guess("x", 1.0, 2))


@pytest.mark.parametrize("given", [[], [WHOLE], (WHOLE,) * 12, "x", [WHOLE] * 12 + [None]])
def test_nothing_of_it_is_stored(red: Corpus, tmp_path: Path, given: object) -> None:
    class Hostile:
        def each(self, calls: Any) -> Any:
            yield 0, given

    with ResponseStore(tmp_path / "x.sqlite") as store:
        engine = QueryEngine(FakeModel(), store, Silent(), Hostile())
        with pytest.raises(WorkersError):
            engine.ask(red.queries[:3], "x")
        assert len(store) == 0


@pytest.mark.parametrize("loss", [nan, inf, "x"])
def test_a_model_of_another_package_that_gives_no_number_is_refused(red: Corpus, tmp_path: Path, loss: Any) -> None:
    """Stored, it would read as the likeliest of several answers."""

    class Strange(FakeModel):
        def candidate_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
            return [Score(loss, 1) for _ in values]

        def guess(self, queries: Sequence[Query], width: int) -> list[list[Guess]]:
            return [[Guess("a", loss, 1)] for _ in queries]

    with ResponseStore(tmp_path / "x.sqlite") as store:
        engine = QueryEngine(Strange(), store, Silent())
        with pytest.raises(AuditError, match="the model gave something else"):
            engine.candidates({red.queries[0]: ("a", "b")}, "x")
        with pytest.raises(AuditError, match="the model gave something else"):
            engine.likely_answers(red.queries[:1], 2, "x")
        assert len(store) == 0


def test_the_form_of_a_reply() -> None:
    assert Reply(given=[1]).is_one()
    assert Reply(failed=("a", "b", "")).is_one()
    for wrong in (Reply(failed=("a",)), Reply(failed="ab"), Reply(unanswerable=("a", "b", 3))):  # type: ignore[arg-type]
        assert not wrong.is_one()


def test_processes_that_keep_dying_end_the_run() -> None:
    context: Any = None
    with pytest.raises(WorkersError):
        failure(WorkersError("3 processes were killed", "Repeat the command"), "membership", context)
