"""Flower's ClientApp: joins, works, and forgets.

A SuperNode starts it anew for every message, and most messages of a secure sum need no torch: what does
is imported where it is used. A simulated node lives on between messages, and keeps what it has opened.
"""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

from typing import Any

from flwr.app import Context, Message
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Status, ndarrays_to_parameters
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_STATE
from flwr.compat.common import recorddict_compat

from pfl_audit.privacy.rounding import levels
from pfl_audit.training.federated.flower import masks
from pfl_audit.training.federated.flower.client_state import ClientState
from pfl_audit.training.federated.flower.config import ClientConfig
from pfl_audit.training.federated.flower.refusal import RefusalError, answering
from pfl_audit.training.federated.flower.round_config import (
    CANARIES,
    FINISH,
    JOIN,
    ROUND,
    RoundConfig,
    question,
    read_question,
    span,
)

masks.install()
app = ClientApp()


def _action(message_type: str) -> str:
    return message_type.partition(".")[2]


@app.query(_action(JOIN), mods=[answering])
def join(message: Message, context: Context) -> Message:
    """Say which client this is, with a commitment to its data: no name, no count of documents."""
    from pfl_audit.training.federated.flower.client import FlowerClient

    client = FlowerClient(context, str(read_question(message.content)["run"]))
    return Message(question(client.join()), reply_to=message)


@app.query(_action(CANARIES), mods=[answering])
def take_canaries(message: Message, context: Context) -> Message:
    """Take this client's part of the canaries of a run that it has joined."""
    from pfl_audit.training.federated.flower.client import FlowerClient

    said = read_question(message.content)
    FlowerClient(context, str(said["run"])).take_canaries(said)
    return Message(question({}), reply_to=message)


@app.train(_action(ROUND), mods=[answering])
def work(message: Message, context: Context) -> Message:
    """One round; the update goes to the server as it is."""
    from pfl_audit.training.federated.codecs import CODECS
    from pfl_audit.training.federated.flower.agreement import Agreement
    from pfl_audit.training.federated.flower.client import FlowerClient
    from pfl_audit.training.federated.flower.wire import read_round, report_content

    codec = CODECS.named(Agreement.from_config(context.run_config).settings.codec)
    order, weights = read_round(message.content, codec)
    client = FlowerClient(context, order.run)
    if client.agreement.secure:
        raise RefusalError("it sends no update outside a secure sum", "Keep to the app")
    report = client.work(order, weights)
    return Message(report_content(report, codec, private=client.agreement.privacy is not None), reply_to=message)


@app.train(mods=[answering, secaggplus_mod])
def work_securely(message: Message, context: Context) -> Message:
    """One round in a secure sum: Flower's modifier calls this in the third of its four stages, and masks the answer."""
    from pfl_audit.training.federated.flower.client import FlowerClient, secure_vector
    from pfl_audit.training.federated.flower.wire import from_parameters

    records = message.content
    order = RoundConfig.from_dict(records.config_records["fitins.config"])
    weights = from_parameters(records.array_records["fitins.parameters"])
    client = FlowerClient(context, order.run)
    reach = span(order, client.agreement.of_phase(order.phase).privacy)
    _require_protocol(context, order, reach)
    report = client.work(order, weights)
    vector = secure_vector(report, private=client.agreement.privacy is not None, reach=reach)
    result = FitRes(
        status=Status(Code.OK, ""),
        parameters=ndarrays_to_parameters([vector.numpy()]),
        num_examples=1,  # of a largest weight of 1: the mean times the count is the sum
        metrics={},
    )
    return Message(recorddict_compat.fitres_to_recorddict(result, keep_input=False), reply_to=message)


@app.query(_action(FINISH), mods=[answering])
def finish(message: Message, context: Context) -> Message:
    """The run is over: delete its secrets."""
    config = ClientConfig.of(context.node_config, context.run_config)
    ClientState(config.work, str(read_question(message.content)["run"])).finish()
    return Message(question({}), reply_to=message)


def _require_protocol(context: Context, order: RoundConfig, reach: float) -> None:
    """Check what the server set for the secure sum: every share is needed, and the steps are those agreed on."""
    state: Any = context.state.config_records[RECORD_KEY_STATE]
    wanted = {
        "sample_num": order.participants,
        "share_num": order.participants,
        "threshold": order.participants,
        "clipping_range": reach,
        "target_range": levels(order.participants),
    }
    if order.participants < 2 or any(state.get(name) != value for name, value in wanted.items()):
        raise RefusalError("the server asks for another secure sum than was agreed", "Use the same version everywhere")
