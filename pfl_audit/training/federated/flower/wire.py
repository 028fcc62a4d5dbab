"""Rounds and reports as Flower's records."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.training.federated.codecs import Codec, Payload
from pfl_audit.training.federated.flower.round_config import RUN, RoundConfig
from pfl_audit.training.federated.messages import Report

_VECTOR, _REPORT, _QUERIES, _SIZE = "vector", "report", "queries", "size"
_TALLIES: tuple[dict[str, Any], ...] = ({}, {"kept": 1}, {"dropped": 1})
"""What a client may say of its update: nothing with privacy."""


def round_content(order: RoundConfig, weights: Tensor, codec: Codec) -> RecordDict:
    """A round's order with what is encoded of the global model, float32 (size,)."""
    run = {**order.to_dict(), _SIZE: len(weights)}
    return RecordDict({RUN: ConfigRecord(run), _VECTOR: _arrays(codec.encode(weights))})


def read_round(content: RecordDict, codec: Codec) -> tuple[RoundConfig, Tensor]:
    """The order, and what was encoded of the global model, float32 (size,).

    Raises:
        AuditError: The model is not encoded as agreed.
    """
    run = content.config_records[RUN]
    return RoundConfig.from_dict(run), _vector(content, codec, int(run[_SIZE]))  # type: ignore[arg-type]


def report_content(report: Report, codec: Codec, *, private: bool) -> RecordDict:
    """A client's report. With privacy the noisy sum is all that leaves: no tally, no loss."""
    said: dict[str, Any] = {} if private else {**report.tally, "losses": list(report.losses), _QUERIES: report.queries}
    return RecordDict({_VECTOR: _arrays(codec.encode(report.update)), _REPORT: ConfigRecord(said)})


def read_report(content: RecordDict, codec: Codec, size: int) -> Report:
    """A client's report, which may hold anything.

    Raises:
        AuditError: Its vector has another length or type, a number is not finite, or it counts as more than one update.
    """
    update = _vector(content, codec, size)
    try:
        said = dict(content.config_records[_REPORT])
        losses = tuple(map(float, said.pop("losses", [])))  # type: ignore[arg-type]
        queries = int(said.pop(_QUERIES, 0))  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _no_update() from error
    if not bool(torch.isfinite(update).all()) or not all(map(math.isfinite, losses)) or queries < 0:
        raise _no_update()
    if said not in _TALLIES or len(losses) > 1:
        raise _no_update()
    return Report(update, Counter(dict.fromkeys(said, 1)), losses, queries=queries)


def from_parameters(record: ArrayRecord) -> Tensor:
    """The global model as Flower's older interface sends it."""
    (weights,) = record.to_numpy_ndarrays()
    return torch.from_numpy(np.array(weights))


def _arrays(payload: Payload) -> ArrayRecord:
    return ArrayRecord({name: Array(tensor.numpy()) for name, tensor in payload.items()})


def _no_update() -> AuditError:
    return AuditError("a message holds no update of this model", "Check versions and starts of server and clients")


def _vector(content: RecordDict, codec: Codec, size: int) -> Tensor:
    try:
        arrays = content.array_records[_VECTOR]
        payload = {name: torch.from_numpy(np.array(array.numpy())) for name, array in arrays.items()}
        vector = codec.decode(payload, size)
    except Exception as error:  # numpy and torch raise many kinds on what is no array of the codec
        raise _no_update() from error
    if vector.dtype != torch.float32:
        raise _no_update()
    return vector
