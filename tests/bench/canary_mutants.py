"""Faults of the private trainer, and which of them update canaries find: python -m tests.bench.canary_mutants.

Each fault replaces one function of the trainer. It runs with shares of the noise on float32 messages, with all of the
noise on messages in NF4 and an adaptive server, and with a fixed schedule and correlated noise; a fault counts as found
if a run of 2,000 canaries in 10 rounds is contradicted.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import torch

from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.progress import Silent
from pfl_audit.training.federated import worker
from pfl_audit.training.federated.canaries.report import family_of, report_on
from pfl_audit.training.federated.canaries.run import observe
from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise
from pfl_audit.training.federated.nf4 import NF4
from pfl_audit.training.federated.server import Server
from pfl_audit.training.federated.worker import Worker
from tests.training.federated.canary_runs import CLAIM, SCHEDULE, manifest, mechanism_for

CLIENTS: Final = 4
_share, _drawn, _clip, _whole = GaussianNoise.share, Worker.drawn, worker.clip, Server._whole_noise
_report, _correlated = Worker.report, GaussianNoise._correlated
SETTINGS: Final[dict[str, tuple[PrivacyGuarantee, dict[str, str]]]] = {
    "shares, float32": (CLAIM, {}),
    "messages, NF4, FedAdam": (
        CLAIM.model_copy(update={"noise": "message"}), {"codec": "nf4", "strategy": "fedadam"},
    ),
    "schedule, five bands": (SCHEDULE, {}),
}  # fmt: skip
"""Claims, and parts of their mechanisms."""


@dataclass(frozen=True)
class Fault:
    """A fault of the trainer.

    Attributes:
        name: What is wrong.
        place: Object whose function is replaced, and its name.
        broken: The replacement.
        harmless: Why the guarantee holds nevertheless, or empty.
        correlated: True for a fault of correlated noise, which no other run has.
    """

    name: str
    place: tuple[Any, str]
    broken: Callable[..., Any]
    harmless: str = ""
    correlated: bool = False


def _noise(change: Callable[[torch.Tensor, int, int, int], torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The share of the noise, changed by itself, round, client and number of clients."""

    def broken(self: GaussianNoise, size: int, number: int, client: int, participants: int) -> torch.Tensor:
        return change(_share(self, size, number, client, participants), number, client, participants)

    return broken


def _of(round_of: Callable[[int], int]) -> Callable[..., list[int]]:
    """Draws of another round."""
    return lambda self, number: _drawn(self, round_of(number))


def _at_rate(change: Callable[[float], float]) -> Callable[..., list[int]]:
    """Independent draws at another rate."""

    def broken(self: Worker, number: int) -> list[int]:
        stream, rate = self._privacy.stream, self._privacy.settings.provider_rate  # type: ignore[union-attr]
        numbers = [stream.uniform(1, "providers", number, self.client.number, tag)[0] for tag in self.client.tags]
        return np.flatnonzero(np.array(numbers) < change(rate)).tolist()

    return broken


def _shuffled(self: Worker, number: int) -> list[int]:
    """A pass over all providers in 1 / rate disjoint batches, shuffled for each pass."""
    batches = round(1 / self._privacy.settings.provider_rate)  # type: ignore[union-attr]
    turn, at = divmod(number - 1, batches)
    stream = self._privacy.stream  # type: ignore[union-attr]
    numbers = [stream.uniform(1, "pass", turn, self.client.number, tag)[0] for tag in self.client.tags]
    return sorted(np.array_split(np.argsort(numbers), batches)[at].tolist())


def _fixed(self: Worker, number: int) -> list[int]:
    """A fixed number of providers without replacement."""
    stream, rate = self._privacy.stream, self._privacy.settings.provider_rate  # type: ignore[union-attr]
    numbers = np.array([stream.uniform(1, "fixed", number, self.client.number, tag)[0] for tag in self.client.tags])
    return sorted(np.argsort(numbers)[: round(rate * len(numbers))].tolist())


def _forgetful(self: GaussianNoise, correlation: Any, drawn: torch.Tensor, number: int, client: int) -> torch.Tensor:
    """Noise of a process that begins again with the sixth round."""
    if number == 6:
        self._last[client] = 5, deque(maxlen=len(correlation.strategy) - 1)
    return _correlated(self, correlation, drawn, number, client)


def _twice(self: Worker, number: int) -> list[int]:
    """Every provider also in the round after its own."""
    return sorted({*_drawn(self, number), *(_drawn(self, number - 1) if number > 1 else ())})


def _clipped(change: Callable[[torch.Tensor, float], torch.Tensor]) -> Callable[..., tuple[torch.Tensor, str]]:
    return lambda update, bound: (change(update, bound), "clipped")


def _uniform(noise: torch.Tensor, number: int, client: int, participants: int) -> torch.Tensor:
    """Uniform noise of the same variance."""
    return (torch.special.ndtr(noise / noise.std()) - 0.5) * math.sqrt(12) * noise.std()


def _rounded_first(self: Worker, number: int, participants: int, *rest: Any) -> Any:
    """Messages are encoded before the noise is added."""
    noise = self._privacy.noise  # type: ignore[union-attr]
    with patch.object(GaussianNoise, "share", lambda *given: torch.zeros(given[1])):
        report = _report(self, number, participants, *rest)
    shares = 1 if self._privacy.whole else participants  # type: ignore[union-attr]
    packed = NF4.decode(NF4.encode(report.update), len(report.update))
    return type(report)(packed + _share(noise, len(packed), number, self.client.number, shares), report.tally)


FAULTS: Final = (
    Fault("clip left out", (worker, "clip"), _clipped(lambda update, bound: update)),
    Fault("clip to twice the bound", (worker, "clip"), lambda update, bound: _clip(update, 2 * bound)),
    Fault("clip to 1.2 times the bound", (worker, "clip"), lambda update, bound: _clip(update, 1.2 * bound)),
    Fault("clip by coordinate", (worker, "clip"), _clipped(lambda update, bound: update.clamp(-bound, bound))),
    Fault("update doubled after the clip", (worker, "clip"),
          _clipped(lambda update, bound: 2 * _clip(update, bound)[0])),
    Fault("clip to half the bound", (worker, "clip"), lambda update, bound: _clip(update, bound / 2),
          "a provider moves the sum by less"),
    Fault("noise left out", (GaussianNoise, "share"), _noise(lambda noise, *_: 0 * noise)),
    Fault("noise halved", (GaussianNoise, "share"), _noise(lambda noise, *_: noise / 2)),
    Fault("noise of 0.95 of its deviation", (GaussianNoise, "share"), _noise(lambda noise, *_: 0.95 * noise)),
    Fault("noise divided by the number of clients", (GaussianNoise, "share"),
          _noise(lambda noise, number, client, participants: noise / CLIENTS)),
    Fault("one client without noise", (GaussianNoise, "share"),
          _noise(lambda noise, number, client, participants: noise * (client != 0))),
    Fault("one round without noise", (GaussianNoise, "share"),
          _noise(lambda noise, number, client, participants: noise * (number != 3))),
    Fault("one noise in all rounds", (GaussianNoise, "share"),
          lambda self, size, number, client, participants: _share(self, size, 1, client, participants)),
    Fault("noise of two rounds shared", (GaussianNoise, "share"),
          lambda self, size, number, client, participants: _share(self, size, (number + 1) // 2, client, participants)),
    Fault("noise that the next round takes back", (GaussianNoise, "share"),
          lambda self, size, number, client, participants: (-1) ** number
          * _share(self, size, (number + 1) // 2, client, participants)),
    Fault("half of the coordinates without noise", (GaussianNoise, "share"),
          _noise(lambda noise, *_: noise * (torch.arange(len(noise)) % 2))),
    Fault("one noise for all clients", (GaussianNoise, "share"),
          lambda self, size, number, client, participants: _share(self, size, number, 0, participants),
          "the sum has more noise (not so messages, whose difference has none)"),
    Fault("uniform noise of the same variance", (GaussianNoise, "share"), _noise(_uniform)),
    Fault("noise rounded to float16", (GaussianNoise, "share"), _noise(lambda noise, *_: noise.half().float())),
    Fault("messages encoded before the noise", (Worker, "report"), _rounded_first),
    Fault("rate doubled", (Worker, "drawn"), _at_rate(lambda rate: 2 * rate)),
    Fault("every provider in every round", (Worker, "drawn"), _at_rate(lambda rate: 1.1)),
    Fault("rate halved", (Worker, "drawn"), _at_rate(lambda rate: rate / 2), "a provider takes part less often"),
    Fault("one draw for the whole run", (Worker, "drawn"), _of(lambda number: 1)),
    Fault("one draw for two rounds", (Worker, "drawn"), _of(lambda number: (number + 1) // 2)),
    Fault("shuffled passes for Poisson draws", (Worker, "drawn"), _shuffled),
    Fault("draws of a fixed size for Poisson draws", (Worker, "drawn"), _fixed),
    Fault("draws in a tenth of the providers twice", (Worker, "drawn"),
          lambda self, number: [one for one in _drawn(self, number) for _ in range(2 if one % 10 == 0 else 1)]),
    Fault("a second participation in the next round", (Worker, "drawn"), _twice),
    Fault("independent noise for correlated", (GaussianNoise, "_correlated"),
          lambda self, correlation, drawn, number, client: drawn, correlated=True),
    Fault("noise of earlier rounds forgotten", (GaussianNoise, "_correlated"), _forgetful, correlated=True),
)  # fmt: skip


@contextmanager
def planted(fault: Fault | None) -> Iterator[None]:
    """The trainer with a fault; workers do not refuse what it does."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(Worker, "_check", lambda self: None))
        if fault is not None:
            stack.enter_context(patch.object(*fault.place, fault.broken))
        yield


def contradictions(fault: Fault | None, seed: int, setting: str, canaries: int = 2000) -> tuple[str, ...]:
    """Contradictions of a run of the trainer with a fault."""
    claim, parts = SETTINGS[setting]
    drawn = manifest(seed, canaries, canaries // 20)
    with planted(fault), TemporaryDirectory() as folder:
        mechanism = mechanism_for(claim, CLIENTS, **parts)
        observation = observe(claim, mechanism, drawn, CLIENTS, Path(folder), Silent(), noise_seed=seed)
    return report_on(claim, drawn, observation, family_of(claim)).contradictions


def main() -> None:
    """Print the table."""
    print(f"| fault | {' | '.join(SETTINGS)} | first contradiction |\n| --- {'| --- ' * len(SETTINGS)}| --- |")
    counts: Counter[str] = Counter()
    for fault in (None, *FAULTS):
        runs = [one for one in SETTINGS if not (fault and fault.correlated) or SETTINGS[one][0] is SCHEDULE]
        found = {one: contradictions(fault, 1, one) for one in runs}
        first = next(
            (one[0] for one in found.values() if one), f"harmless: {fault.harmless}" if fault and fault.harmless else ""
        )
        words = [("found" if found[one] else "–") if one in found else "" for one in SETTINGS]
        counts["found" if any(found.values()) else "harmless" if fault and fault.harmless else "not found"] += (
            fault is not None
        )
        print(f"| {fault.name if fault else 'correct'} | {' | '.join(words)} | {first} |", flush=True)
    print(dict(counts))


if __name__ == "__main__":
    main()
