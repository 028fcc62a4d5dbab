"""Calls in several processes: the same answers, and a process that dies costs the call that it had."""

import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError, UnanswerableError, WorkersError
from pfl_audit.models.calls import Calls, InTurn
from pfl_audit.models.open import open_model
from pfl_audit.models.openings import AnswerOpening
from pfl_audit.models.processes import Processes, failed
from pfl_audit.models.protocol import DocumentModel
from pfl_audit.progress import Silent, Task


@pytest.fixture(scope="module")
def processes(warm_workers: None) -> Iterator[Processes]:
    """Two, which find the calls below."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[2]))
        yield Processes(2)


@pytest.fixture(scope="module")
def opening(make_checkpoint: Callable[[int], Path]) -> AnswerOpening:
    name = str(make_checkpoint(0))
    return AnswerOpening(name, "cpu", False, None, open_model(name).fingerprint)


@pytest.fixture
def calls(processes: Processes, opening: AnswerOpening) -> Calls[DocumentModel]:
    return processes.calls(opening)


def die(model: DocumentModel, task: Task) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_once(marker: Path, model: DocumentModel, task: Task) -> int:
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def note(folder: Path, number: int, model: DocumentModel, task: Task) -> int:
    with (folder / str(number)).open("a") as file:
        file.write("x")
    return number


def fail(model: DocumentModel, task: Task) -> None:
    raise ValueError("Acme Media owes 12.00")


def refuse(model: DocumentModel, task: Task) -> None:
    raise UnanswerableError("page.png cannot be read", "Leave it out", "the page cannot be read")


def test_answers_and_store_are_those_of_one_process(
    calls: Calls[DocumentModel], opening: AnswerOpening, red: list[Query], tmp_path: Path
) -> None:
    model = open_model(opening.name)
    kept = []
    for number, way in enumerate((None, calls)):
        with ResponseStore(tmp_path / f"{number}.sqlite") as store:
            engine = QueryEngine(model, store, Silent(), way)
            answers = engine.ask(red, "test")
            assert engine.asked == len(red)
            kept.append([answers[query] for query in red])
    assert kept[0] == kept[1]


@pytest.fixture
def red(corpus_folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Query]:
    """Questions, in batches of three."""
    monkeypatch.setattr("pfl_audit.models.vt5.model.Vt5Responder.batch_size", lambda self, cost: 3)
    return list(open_corpus(corpus_folder, "red").queries[:12])


def test_a_process_that_dies_costs_its_call_alone(calls: Calls[DocumentModel], tmp_path: Path) -> None:
    folder = tmp_path / "asked"
    folder.mkdir()
    work = [partial(note, folder, number) for number in range(20)]
    found = dict(calls.each([*work[:5], partial(die_once, tmp_path / "died"), *work[5:]]))
    assert [found[at] for at in range(21) if at != 5] == list(range(20))
    assert isinstance(found[5], int)
    assert [(folder / str(number)).read_text() for number in range(20)] == ["x"] * 20


def test_a_call_that_every_process_dies_of_ends_with_a_line(calls: Calls[DocumentModel]) -> None:
    with pytest.raises(WorkersError, match="3 processes were killed over one batch") as caught:
        list(calls.each([die]))
    assert "fewer --workers" in caught.value.remedy
    assert dict(calls.each([pid, pid])).keys() == {0, 1}


def pid(model: DocumentModel, task: Task) -> int:
    return os.getpid()


def test_what_a_call_raises_comes_back(calls: Calls[DocumentModel]) -> None:
    ((at, found),) = calls.each([refuse])
    assert at == 0
    assert isinstance(found, UnanswerableError)
    assert found.reason == "the page cannot be read"
    with pytest.raises(AuditError) as caught:
        list(calls.each([fail]))
    assert caught.value.problem == "internal error: ValueError"


def test_memory_of_torch_that_is_full_is_named() -> None:
    reply = failed(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."), "less")
    assert reply.failed == ("out of memory", "Repeat the command with less: it goes on", "")


def test_a_checkpoint_that_changes_is_not_asked(processes: Processes, opening: AnswerOpening) -> None:
    other = AnswerOpening(opening.name, "cpu", False, None, "of other weights")
    with pytest.raises(AuditError, match="has changed since it was opened"):
        list(processes.calls(other).each([pid]))


def test_calls_that_cannot_be_sent(calls: Calls[DocumentModel]) -> None:
    with pytest.raises(AuditError, match="cannot be given to another process") as caught:
        list(calls.each([lambda model, task: 0]))
    assert caught.value.remedy == "Use --workers 1"


def test_they_end_with_their_owner(opening: AnswerOpening) -> None:
    processes = Processes(1)
    ((_, found),) = processes.calls(opening).each([pid])
    assert Path(f"/proc/{found}").exists()
    del processes
    assert not Path(f"/proc/{found}").exists()


def test_in_turn_asks_nothing_before_an_answer_is_taken(opening: AnswerOpening) -> None:
    asked: list[int] = []
    model = open_model(opening.name)
    work = [lambda model, task, at=at: asked.append(at) for at in range(3)]
    each: Iterator[tuple[int, object]] = InTurn(model).each(work)
    next(each)
    assert asked == [0]
