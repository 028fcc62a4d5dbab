"""Answers of clients, which may hold anything."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from pfl_audit.errors import AuditError
from pfl_audit.progress import Silent
from pfl_audit.training.federated.codecs import FLOAT32
from pfl_audit.training.federated.flower.messenger import Absent
from pfl_audit.training.federated.flower.nodes import Nodes
from pfl_audit.training.federated.flower.round_config import question
from pfl_audit.training.federated.flower.wire import read_report
from pfl_audit.training.federated.nf4 import NF4

ZEROS = np.zeros(3, dtype=np.float32)
HUGE = b"\x93NUMPY\x01\x00\x60\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,)}".ljust(
    96
)


def content(vector: Any, **said: Any) -> RecordDict:
    return RecordDict({"vector": ArrayRecord({"vector": Array(vector)}), "report": ConfigRecord(said)})


def damaged(data: bytes) -> RecordDict:
    """With a vector that numpy cannot read."""
    array = Array(dtype="float32", shape=(3,), stype="numpy.ndarray", data=data)
    return RecordDict({"vector": ArrayRecord({"vector": array}), "report": ConfigRecord({"kept": 1})})


def test_codes_that_are_no_half_bytes_are_one_line() -> None:
    codes = {"codes": Array(np.full(2, 300, dtype=np.int16)), "scales": Array(np.ones(1, dtype=np.float32))}
    answer = RecordDict({"vector": ArrayRecord(codes), "report": ConfigRecord({"kept": 1})})
    with pytest.raises(AuditError, match="holds no update of this model"):
        read_report(answer, NF4, 3)


def test_a_report_is_read() -> None:
    found = read_report(content(ZEROS, kept=1, losses=[0.5], queries=3), FLOAT32, 3)
    assert (dict(found.tally), found.losses, found.queries) == ({"kept": 1}, (0.5,), 3)
    assert not read_report(content(ZEROS), FLOAT32, 3).tally


@pytest.mark.parametrize(
    "answer",
    [
        RecordDict({}),
        RecordDict({"vector": ArrayRecord({"vector": Array(ZEROS)})}),
        content(ZEROS[:2]),
        content(ZEROS + np.inf),
        content(ZEROS.astype(np.float64) + 1e300),  # infinite once it is added up
        content(ZEROS.astype(np.complex128)),
        content(np.array(["a", "b", "c"])),
        content(ZEROS, kept="many"),
        content(ZEROS, kept=10**9),  # the sum of the others would be divided by it
        content(ZEROS, kept=-5),
        content(ZEROS, absent=1),
        content(ZEROS, kept=1, queries=-5),
        content(ZEROS, kept=1, losses=3.0),
        content(ZEROS, kept=1, losses=["x"]),
        content(ZEROS, kept=1, losses=[float("nan")]),
        content(ZEROS, kept=1, losses=[0.5] * 2),  # millions of them, and the server's state could not be read again
        *map(damaged, [b"", b"PK\x03\x04", b"\x93NUMPY\x01\x00\x04\x00((((", HUGE]),
    ],
)
def test_a_report_that_cannot_be_is_one_line(answer: RecordDict) -> None:
    with pytest.raises(AuditError, match="holds no update of this model"):
        read_report(answer, FLOAT32, 3)


class _Three:
    """Node 1 answers what is no answer, node 2 refuses, node 3 is client 0."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}

    def nodes(self) -> set[int]:
        return {1, 2, 3}

    def ask(self, messages: list[Message], absent: Absent, enough: int, grace: float) -> Iterator[Any]:
        said = {"number": 0, "commitment": "c", "marks": [], "providers": 2}
        for node, values in ((1, {**said, "number": "x"}), (2, None), (3, said)):
            if values is None:
                absent(node, AuditError("it refuses"))
            else:
                yield SimpleNamespace(content=question(values), metadata=SimpleNamespace(src_node_id=node))


def test_a_node_that_fails_keeps_no_other_from_a_round_with_a_quorum() -> None:
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    nodes = Nodes(_Three(), "run", 2, 0.0, Silent(), quorum=1)  # type: ignore[arg-type]
    assert nodes.present([0, 1]) == {0: 3}
    with pytest.raises(AuditError, match="a node does not say which client it is"):
        Nodes(_Three(), "run", 2, 0.0, Silent()).join()  # type: ignore[arg-type]
