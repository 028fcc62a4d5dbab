"""Processes that wait for room before they start: they get no call before, and those that die are replaced twice."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pfl_audit.errors import WorkersError
from pfl_audit.models.calls import Call, Opening, Pool, Reply


class Starting:
    """A Holder that starts, dies or waits, as its place says, and answers with its number."""

    def __init__(self, number: int, fate: str) -> None:
        self.number, self.fate = number, fate
        self.called = self.ended = False

    def send(self, opening: Opening[Any], call: Call[Any, Any]) -> None:
        assert self.fate == "starts"
        self.called = True

    def has_started(self) -> bool:
        return self.fate == "starts"

    def receive(self) -> Reply[Any]:
        return Reply(self.number)

    def end(self) -> None:
        self.ended = True


class Room:
    """Holders with the fates that are given, in order."""

    fewer, waits, shares_files, room = "fewer", True, False, 2

    def __init__(self, *fates: str) -> None:
        self._fates: Iterator[str] = iter(fates)
        self.made: list[Starting] = []

    def start(self) -> Starting:
        self.made.append(Starting(len(self.made), next(self._fates)))
        return self.made[-1]

    def ready(self, busy: Sequence[Starting]) -> Sequence[Starting]:
        found = [one for one in busy if one.called or one.fate != "waits"]
        assert found, "it would wait for ever"
        return found


def asked(room: Room) -> list[object]:
    given: Any = object()
    return [number for _, number in Pool(room).calls(given).each([given] * 4)]


def test_one_that_waits_gets_no_call() -> None:
    room = Room("waits", "starts")
    assert asked(room) == [1] * 4
    assert not room.made[0].called


@pytest.mark.parametrize("deaths", [1, 2])
def test_one_that_dies_as_it_starts_is_replaced(deaths: int) -> None:
    room = Room("waits", *["dies"] * deaths, "starts")
    assert asked(room) == [deaths + 1] * 4
    assert [one.ended for one in room.made] == [False, *[True] * deaths, False]


def test_three_that_die_as_they_start_end_the_audit() -> None:
    room = Room("waits", "dies", "dies", "dies", "starts")
    with pytest.raises(WorkersError, match="3 processes died as they started"):
        asked(room)
    assert len(room.made) == 4
