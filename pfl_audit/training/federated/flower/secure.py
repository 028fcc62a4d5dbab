"""SecAgg+: the server gets the sum of the updates and none of them.

Flower has it only for its older strategies, so this replaces it. Every share is needed to take
the masks off: where a client drops out, no sum comes out at all, for with its update its share of the
noise would be missing too.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Context, RecordDict
from flwr.common import FitIns, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.server import LegacyContext
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD, Key
from flwr.serverapp import Grid
from numpy.typing import NDArray

from pfl_audit.errors import AuditError
from pfl_audit.privacy.rounding import levels
from pfl_audit.training.federated.flower import masks
from pfl_audit.training.federated.flower.messenger import Messenger
from pfl_audit.training.federated.flower.round_config import RoundConfig

masks.install()


def secure_sum(
    messenger: Messenger, nodes: list[int], weights: NDArray[np.float32], order: RoundConfig, reach: float
) -> NDArray[np.float64]:
    """Let nodes work, and return the sum of what they send.

    Each coordinate is rounded at random to one of ``levels`` steps of width 2 * reach / levels, so the
    sum is right in expectation and off by sqrt(participants / 6) steps (root mean square).

    Args:
        nodes: All who take part, two or more.
        weights: The global model, float32 (size,).
        reach: Largest value of a coordinate.

    Returns:
        Sum, float64 (numbers that the clients send,).

    Raises:
        AuditError: A client dropped out; there is no sum then.
    """
    strategy = _Collect(nodes, FitIns(ndarrays_to_parameters([weights]), order.to_dict()))
    context = LegacyContext(
        Context(run_id=0, node_id=0, node_config={}, state=RecordDict(), run_config={}),
        strategy=cast("Any", strategy),
        client_manager=cast("Any", SimpleNamespace(num_available=lambda: len(nodes))),
    )
    context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({Key.CURRENT_ROUND: order.number})
    context.state.array_records[MAIN_PARAMS_RECORD] = ArrayRecord([np.zeros(1)])  # goes nowhere
    workflow = SecAggPlusWorkflow(
        num_shares=1.0,
        reconstruction_threshold=1.0,
        max_weight=1.0,
        clipping_range=reach,
        quantization_range=levels(len(nodes)),
    )
    workflow(cast("Grid", messenger), context)
    if strategy.mean is None or strategy.count != len(nodes):
        raise AuditError(
            f"round {order.number}: a client dropped out of the secure sum, so there is none",
            "Start the run again: it goes on with this round",
        )
    return strategy.mean * strategy.count


class _Collect:
    """The two calls that the workflow makes of a strategy."""

    def __init__(self, nodes: list[int], order: FitIns) -> None:
        self._nodes = nodes
        self._order = order
        self.mean: NDArray[np.float64] | None = None
        self.count = 0

    def configure_fit(self, server_round: int, parameters: Any, client_manager: Any) -> list[tuple[Any, FitIns]]:
        """Whom to ask."""
        return [(SimpleNamespace(node_id=node), self._order) for node in self._nodes]

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> tuple[None, dict[str, Any]]:
        """Take the mean; all weights are one, so mean times count is the sum."""
        self.count = len(results)
        if results:
            (self.mean,) = parameters_to_ndarrays(results[0][1].parameters)
        return None, {}
