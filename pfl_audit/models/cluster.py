"""Actors of a Ray cluster that hold models.

Ray is imported when a cluster is asked for, and at no other time.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import tempfile
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, floor
from pathlib import Path
from secrets import token_hex
from typing import Any

from pfl_audit.errors import AuditError, UsageError, WorkersError
from pfl_audit.models.calls import Call, M, Opening, Pool, Reply
from pfl_audit.models.processes import be_silent, failed, reply

LOCAL = "local"
_FEWER = "fewer --workers on each machine"
_ADDRESS = re.compile(r"[A-Za-z0-9_.\-]{1,253}:[0-9]{1,5}|\[[0-9a-fA-F:]{2,39}\]:[0-9]{1,5}")
_OBJECTS = 256 << 20
"""Bytes of Ray's object store on this machine: questions and answers pass through it."""
_PATIENCE = 10.0
"""Seconds that a cluster has to answer."""
_PASSED_ON = ("HF_HUB_OFFLINE", "HF_HUB_DISABLE_TELEMETRY", "TOKENIZERS_PARALLELISM", "TRANSFORMERS_VERBOSITY")
"""Variables of this process that restrain libraries, for the actors."""


class Cluster(Pool["Actor"]):
    """Actors that hold models, on all machines of a Ray cluster.

    They end with this process, however it ends.

    Args:
        address: ``HOST:PORT`` of a cluster, or ``local`` for one of this machine alone, which ends with this process.
        each: Actors on each machine; its processors and GPUs are divided among them.
        device: torch's name of the device; for ``cuda`` machines without a GPU are left out.

    Raises:
        UsageError: The address is none, or Ray is not installed.
        AuditError: The cluster cannot be reached, or has no machine with the device.
    """

    def __init__(self, address: str, each: int, device: str) -> None:
        folder = _connect(address)
        weakref.finalize(self, _disconnect, folder)
        super().__init__(_Machines(each, device))
        _ = self._holders.room


def _connect(address: str) -> Path | None:
    """Connect to a cluster, and return the folder of one that was started here."""
    if address != LOCAL and not _ADDRESS.fullmatch(address):
        raise UsageError(f"--cluster {address:.80} is no address", "Give HOST:PORT, or local")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray hides GPUs, and warns of it
    folder = None
    shared: dict[str, Any] = {
        "include_dashboard": False,
        "log_to_driver": False,
        "configure_logging": False,
        "runtime_env": {"env_vars": {name: os.environ[name] for name in _PASSED_ON if name in os.environ}},
    }
    if address == LOCAL:  # its ports are open to the network, so the token is required
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token()}
        folder = Path(tempfile.mkdtemp(prefix="pfl-"))
        shared |= {"_temp_dir": str(folder / "ray"), "object_store_memory": _OBJECTS}
    else:
        del shared["include_dashboard"]
    try:
        import ray
    except ImportError as error:
        raise UsageError("--cluster needs Ray", "Install it: pip install 'pfl-audit[cluster]'") from error
    try:
        if address != LOCAL:
            _require_answer(address)
        ray.init(address=address, **shared)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
        _disconnect(folder)
        if address == LOCAL:
            raise AuditError(
                "Ray did not start on this machine",
                "Use --workers, which needs no Ray, or try again when it is less busy",
            ) from error
        raise AuditError(
            f"no Ray cluster answers at {address}",
            "Check 'ray status' there, its version and its token, and the network",
        ) from error
    return folder


@cache
def _token() -> str:
    """One for all clusters that this process starts: Ray keeps the first that it has read."""
    return token_hex(32)


def _require_answer(address: str) -> None:
    """Raise OSError where nothing listens, for which Ray waits minutes."""
    host, _, port = address.rpartition(":")
    if not 0 < int(port) < 1 << 16:
        raise OSError(f"there is no port {port}")
    socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _disconnect(folder: Path | None) -> None:
    import ray

    ray.shutdown()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class _Share:
    """What each actor of a machine gets."""

    count: int
    processors: int
    gpus: float


class _Machines:
    """As of Holders: the machines of the cluster, also those that come later."""

    fewer = _FEWER
    waits = True
    shares_files = False

    def __init__(self, each: int, device: str) -> None:
        self._each, self._device = each, device
        self._machines: dict[str, _Share] = {}
        self._used = Counter[str]()

    @property
    def room(self) -> int:
        import ray

        found = {str(node["NodeID"]): node["Resources"] for node in ray.nodes() if node["Alive"]}
        self._machines = {name: share for name, of in found.items() if (share := self._share(of)) is not None}
        if not self._machines:
            raise WorkersError(
                f"the cluster has no machine for the device {self._device}", "See 'ray status', and start its machines"
            )
        return sum(share.count for share in self._machines.values())

    def _share(self, resources: Mapping[str, float]) -> _Share | None:
        processors, gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
        if not processors or (self._device.startswith("cuda") and not gpus):
            return None
        count = min(self._each, processors)
        if not self._device.startswith("cuda"):
            gpus = 0
        return _Share(count, processors // count, _part(gpus, count))

    def start(self) -> Actor:
        free = [name for name, share in self._machines.items() if self._used[name] < share.count]
        name = min(free or self._machines, key=lambda one: self._used[one])
        self._used[name] += 1
        return Actor(name, self._machines[name], self._used)

    def ready(self, busy: Sequence[Actor]) -> Sequence[Actor]:
        import ray

        done, _ = ray.wait([one.reference for one in busy], num_returns=1)
        return [one for one in busy if one.reference in done]


def _part(gpus: int, count: int) -> float:
    """GPUs of each of some actors: whole ones, or a part of one, since Ray gives no actor parts of two."""
    if gpus >= count or not gpus:
        return gpus // count
    return floor(10_000 / ceil(count / gpus)) / 10_000  # the unit that Ray counts in


class Actor:
    """An actor of a machine; a Holder."""

    def __init__(self, machine: str, share: _Share, used: Counter[str]) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        self._machine, self._used = machine, used
        there = NodeAffinitySchedulingStrategy(node_id=machine, soft=False)
        made: Any = ray.remote(_Models)
        options = {"num_cpus": share.processors, "num_gpus": share.gpus, "scheduling_strategy": there}
        self._actor = made.options(**options, max_restarts=0).remote(share.processors)
        self.reference: Any = self._actor.__ray_ready__.remote()

    def send(self, opening: Opening[M], call: Call[M, Any]) -> None:
        """As of Holder."""
        import pickle

        try:
            self.reference = self._actor.ask.remote(opening, call)
        except (pickle.PicklingError, TypeError, AttributeError) as error:
            raise AuditError(
                "documents of this format cannot be given to another machine", "Leave --cluster out"
            ) from error

    def has_started(self) -> bool:
        """As of Holder."""
        import ray
        from ray.exceptions import RayError

        try:
            ray.get(self.reference)
        except RayError:
            return False
        return True

    def receive(self) -> Reply[Any] | None:
        """As of Holder."""
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            found: object = ray.get(self.reference)
        except RayTaskError as error:  # what the actor could not even open
            return failed(error, _FEWER)
        except RayError:
            return None
        return found if isinstance(found, Reply) else failed(TypeError(), _FEWER)

    def end(self) -> None:
        """As of Holder."""
        import ray

        ray.kill(self._actor)
        self._used[self._machine] -= 1


class _Models:
    """What runs in an actor: opened models, and calls of them."""

    def __init__(self, threads: int) -> None:
        be_silent()
        import torch

        torch.set_num_threads(threads)
        self._models: dict[Opening[Any], Any] = {}

    def ask(self, opening: Opening[M], call: Call[M, Any]) -> Reply[Any]:
        """Call a model."""
        return reply(self._models, opening, call, _FEWER)
