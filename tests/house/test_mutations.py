"""The table of rules that are broken on purpose fits the sources and the tests."""

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.mutations.mutation import Mutation
from tests.mutations.table import MUTATIONS

ROOT = Path(__file__).parents[2]
FEWEST = {
    "verdicts": 6, "statistics": 6, "scrubbing": 5, "accounting": 6, "clipping and noise": 4, "readers": 5,
    "masking": 5, "exit codes": 3, "resume": 4, "attacks": 8,
}  # fmt: skip


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_a_mutation_changes_one_place_of_a_source_that_can_still_be_read(mutation: Mutation) -> None:
    path = ROOT / mutation.file
    text = path.read_text(encoding="utf-8")
    assert path.resolve() == path, "a path without links"
    assert text.count(mutation.before) == 1
    changed = text.replace(mutation.before, mutation.after)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.rule)
def test_the_tests_of_a_mutation_exist(mutation: Mutation) -> None:
    assert mutation.tests
    assert [file for file in mutation.tests if not (ROOT / file).is_file()] == []


def test_each_rule_is_broken_once_and_every_room_has_some() -> None:
    assert len({mutation.rule for mutation in MUTATIONS}) == len(MUTATIONS) >= 40
    rooms = Counter(mutation.room for mutation in MUTATIONS)
    assert {room: rooms[room] for room, count in FEWEST.items() if rooms[room] < count} == {}
