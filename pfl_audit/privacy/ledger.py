"""Budget ledger: every private run over some data, kept beside them, so that runs compose.

A JSON file of mode 0600, changed under a lock and written atomically. Units of privacy are HMACs of their names under a
key of the ledger. A run is reserved whole before its first round and stays, whatever becomes of it. A ledger that is
deleted or replaced cannot be detected.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np
from pydantic import ValidationError

from pfl_audit.errors import AuditError, StorageError, UsageError
from pfl_audit.files import make_folder, remedy_for, write_text
from pfl_audit.inputs import MIB, is_there, read_text
from pfl_audit.privacy.guarantee import ComposedGuarantee
from pfl_audit.privacy.ledger_content import LedgerContent, LedgerRun, new_content, new_entry
from pfl_audit.privacy.renyi_filter import RunCost
from pfl_audit.privacy.units import PrivacyUnit

_LARGEST = 256 * MIB
_REMEDY = "Restore it from a copy: runs that it does not hold are not counted"


@dataclass(frozen=True)
class Spent:
    """What a ledger says.

    Attributes:
        runs: Run to what was reserved for it, in their order.
        unit: Unit of privacy.
        providers: Number of units in all.
        epsilon: Largest epsilon of a unit.
        together: Epsilon of all runs, as if one unit were in each.
        delta: Delta of both.
        order: Rényi order of the filter.
        cap: Largest epsilon that a unit may spend, or None.
    """

    runs: dict[str, LedgerRun]
    unit: PrivacyUnit
    providers: int
    epsilon: float
    together: float
    delta: float
    order: float
    cap: float | None


class Ledger:
    """The budget ledger of some data.

    Args:
        path: Its file, made with the first run.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))

    def reserve(
        self, run: str, names: Iterable[str], cost: RunCost, cap: float | None = None
    ) -> tuple[ComposedGuarantee, float]:
        """Reserve a run before its first round; a run that is there already is not counted again.

        Args:
            run: Id of the run, the same when it continues.
            names: Units that it trains on.
            cost: What it spends.
            cap: Largest epsilon of a unit in all runs; it replaces that of the ledger and stays.

        Returns:
            Guarantee of this run and all before it together, which depends on no unit, and the largest epsilon of a
            unit of this run.

        Raises:
            UsageError: The run would exceed the cap, its delta is not the ledger's, or the cap is no number above 0.
            AuditError: The ledger is damaged.
            StorageError: It cannot be locked or written.
        """
        require_cap(cap)
        with self._locked():
            content = self._read() or new_content(cost, cap)
            new = run not in content.runs
            if new:
                if cost.delta != content.delta:
                    raise UsageError(
                        f"{self.path} is kept at delta {content.delta:g}, and the run has {cost.delta:g}",
                        f"Give --delta {content.delta:g}, or another --ledger for other data",
                    )
                if cost.unit != content.unit:
                    raise UsageError(
                        f"{self.path} counts what a {content.unit} has spent, and the run protects a {cost.unit}",
                        "Use the --unit of the runs before, or another --ledger, which does not count them",
                    )
                if any(held.kind != cost.kind for held in content.runs.values()):
                    raise UsageError(
                        f"{self.path} holds runs of another adjacency: a provider is added or removed by Poisson "
                        "sampling, replaced in groups of a fixed size, and zeroed in a schedule",
                        "Use the --sampling of the runs before, or another --ledger for other data",
                    )
                content.runs[run] = new_entry(content, names, cost)
            if new or cap not in (None, content.cap):
                content.cap = content.cap if cap is None else cap
                self._require_room(content, run)
                self._write(content)
        upto = [*content.runs.values()][: [*content.runs].index(run) + 1]
        together = ComposedGuarantee(
            epsilon=content.epsilon(upto), delta=content.delta, runs=len(upto), order=content.order
        )
        return together, content.largest(upto, content.runs[run].providers)

    def holds(self, run: str) -> bool:
        """Whether a run is reserved."""
        content = self._read()
        return content is not None and run in content.runs

    def agrees(self, run: str, cost: RunCost) -> bool | None:
        """True if what is reserved for a run is this cost, None if the run is not reserved."""
        content = self._read()
        if content is None or (held := content.runs.get(run)) is None:
            return None
        same = (content.unit, held.rounds, held.kind) == (cost.unit, cost.sampling.rounds, cost.kind)
        # Divergences on two machines differ by rounding.
        return same and bool(np.allclose(held.divergences, cost.divergences(content.orders), rtol=1e-6, atol=0))

    @property
    def cap(self) -> float | None:
        """Largest epsilon that a provider may spend, or None where no run has set one."""
        content = self._read()
        return None if content is None else content.cap

    def trained(self, runs: Iterable[str], names: Iterable[str]) -> bool:
        """True if one of these runs trained on one of these units."""
        content = self._read()
        if content is None or not (known := [content.runs[run] for run in runs if run in content.runs]):
            return False
        tags = content.tags(names)
        return any(not tags.isdisjoint(run.providers) for run in known)

    def spent(self) -> Spent:
        """What was spent.

        Raises:
            UsageError: There is no ledger.
            AuditError: It is damaged.
        """
        content = self._read()
        if content is None:
            raise UsageError(f"{self.path} does not exist", "Give the ledger of the data, named in the private record")
        runs = [*content.runs.values()]
        return Spent(
            runs=content.runs,
            unit=content.unit,
            providers=len({tag for run in runs for tag in run.providers}),
            epsilon=content.largest(runs),
            together=content.epsilon(runs) if runs else 0.0,
            delta=content.delta,
            order=content.order,
            cap=content.cap,
        )

    def _require_room(self, content: LedgerContent, run: str) -> None:
        spent = content.largest([*content.runs.values()], content.runs[run].providers)
        if content.cap is not None and spent > content.cap:
            raise UsageError(
                f"the budget is used up: with this run a {content.unit} would have spent epsilon {spent:.2f} of "
                f"{content.cap:g} ({self.path})",
                "Lower --epsilon or raise --sigma, train on other data, or raise --budget-cap",
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the folder, since the file is replaced whenever it is written."""
        try:
            make_folder(self.path.parent, private=True)
            handle = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise self._unusable("cannot be written", error) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        except OSError as error:
            raise self._unusable("cannot be locked", error) from error
        finally:
            os.close(handle)

    def _read(self) -> LedgerContent | None:
        if not is_there(self.path):
            return None
        text = read_text(self.path, limit=_LARGEST, remedy=_REMEDY)
        try:
            return LedgerContent.model_validate_json(text)
        except ValidationError as error:
            where = ".".join(str(part) for part in error.errors()[0]["loc"][:1])
            what = f": '{where}' cannot be" if where else ""
            raise AuditError(f"{self.path} is no ledger, or damaged{what}", _REMEDY) from error

    def _write(self, content: LedgerContent) -> None:
        try:
            write_text(self.path, content.model_dump_json(indent=1) + "\n")
        except StorageError as error:
            raise StorageError(error.problem, error.remedy.replace("--out", "--ledger")) from error

    def _unusable(self, how: str, error: OSError) -> StorageError:
        return StorageError(f"{self.path} {how}: {error.strerror or error}", remedy_for(error, "--ledger"))


def require_cap(cap: float | None) -> None:
    """Raise UsageError where a cap is given that is no number above 0."""
    if cap is not None and not 0 < cap < inf:
        raise UsageError(f"the budget cap is {cap:g}", "Give --budget-cap a number above 0")


def default_path(data: Path) -> Path:
    """The ledger beside some data, found through links as well."""
    place = Path(os.path.realpath(data))
    return place.with_name(f"{place.name}.ledger.json")
