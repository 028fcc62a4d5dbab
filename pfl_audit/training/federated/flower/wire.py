"""Rounds and reports as Flower's records."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from torch import Tensor

from pfl_audit.errors import AuditError
from pfl_audit.training.federated.codecs import CODEC, Payload
from pfl_audit.training.federated.flower.round_config import RUN, RoundConfig
from pfl_audit.training.federated.messages import Report

_VECTOR, _REPORT = "vector", "report"


def round_content(order: RoundConfig, weights: Tensor) -> RecordDict:
    """A round's order with the global model, float32 (size,)."""
    return RecordDict({RUN: ConfigRecord(order.to_dict()), _VECTOR: _arrays(CODEC.encode(weights))})


def read_round(content: RecordDict) -> tuple[RoundConfig, Tensor]:
    """The order, and the global model."""
    return RoundConfig.from_dict(content.config_records[RUN]), _vector(content)


def report_content(report: Report, *, private: bool) -> RecordDict:
    """A client's report. With privacy the noisy sum is all that leaves: no tally, no loss."""
    said: dict[str, Any] = {} if private else {**report.tally, "losses": list(report.losses)}
    return RecordDict({_VECTOR: _arrays(CODEC.encode(report.update)), _REPORT: ConfigRecord(said)})


def read_report(content: RecordDict, size: int) -> Report:
    """A client's report, which may hold anything.

    Raises:
        AuditError: Its vector has another length, or numbers that are not finite.
    """
    update, said = _vector(content), dict(content.config_records[_REPORT])
    if update.shape != (size,) or not bool(torch.isfinite(update).all()):
        raise AuditError("a client sent something that is no update of this model", "Check its version and its start")
    losses = said.pop("losses", [])
    return Report(update, Counter({str(k): int(v) for k, v in said.items()}), tuple(losses))  # type: ignore[arg-type]


def from_parameters(record: ArrayRecord) -> Tensor:
    """The global model as Flower's older interface sends it."""
    (weights,) = record.to_numpy_ndarrays()
    return torch.from_numpy(np.array(weights))


def _arrays(payload: Payload) -> ArrayRecord:
    return ArrayRecord({name: Array(tensor.numpy()) for name, tensor in payload.items()})


def _vector(content: RecordDict) -> Tensor:
    payload = {
        name: torch.from_numpy(np.array(array.numpy())) for name, array in content.array_records[_VECTOR].items()
    }
    return CODEC.decode(payload)
