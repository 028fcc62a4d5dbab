"""Size of every message of a run in bytes (privacy-aware-docvqa, section 6.1).

The initial model is not counted, nor is what a transport adds. Two figures: what is really sent, each
tensor once; and the papers' way, where every name of a tied tensor is sent. The papers' "GB" are GiB.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pfl_audit.files import write_text
from pfl_audit.training.federated.messages import SERVER

FILE = "communication.csv"
_COLUMNS = ("round", "sender", "receiver", "bytes")


def messages(taken: Iterable[Iterable[int]], size: int, back: int) -> Iterator[tuple[int, int, int, int]]:
    """Round, sender, receiver and bytes of every message: the model to each client, its update back.

    Args:
        taken: Clients that took part, round by round.
        size: Bytes of the model.
        back: Bytes of an update.
    """
    for number, clients in enumerate(taken, 1):
        for client in clients:
            yield number, SERVER, client, size
            yield number, client, SERVER, back


def write_log(folder: Path, taken: Iterable[Iterable[int]], size: int, back: int) -> None:
    """Write the messages as CSV; the server's number is -1."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(_COLUMNS)
    rows.writerows(messages(taken, size, back))
    write_text(folder / FILE, text.getvalue())


def summary(count: int, size: int, papers_size: int, back: int | None = None) -> dict[str, Any]:
    """Totals of ``count`` messages, in bytes, GB (10^9) and GiB (2^30), both ways.

    Args:
        count: Of models and updates, as many of each.
        size: Bytes of a message.
        papers_size: The papers' way.
        back: Bytes of an update, where they are others.
    """
    back = size if back is None else back
    sizes = {"bytes_a_message": size} if back == size else {"bytes_a_message": size, "bytes_an_update": back}
    return {
        "messages": count,
        **sizes,
        **_units(count * (size + back) // 2),
        "papers_way": {"bytes_a_message": papers_size, **_units(count * papers_size)},
    }


def _units(amount: int) -> dict[str, float]:
    return {"bytes": amount, "GB": round(amount / 1e9, 3), "GiB": round(amount / 2**30, 3)}
