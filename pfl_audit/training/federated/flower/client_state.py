"""State of a client on disk, since Flower starts a new process for every message.

It also keeps a server from asking twice. The noise of a round is drawn from the client's key, so the
same round over other weights would have the same noise, and the difference of the two answers none.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path
from typing import Any

from torch import Tensor

from pfl_audit.files import write_json
from pfl_audit.inputs import read_json
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.flower.refusal import RefusalError
from pfl_audit.training.federated.flower.round_config import RoundConfig
from pfl_audit.training.federated.messages import Report, mean_norms
from pfl_audit.training.records import commit

FILE = "journal.json"
_RUN = re.compile(r"[0-9a-f]{32}")


class ClientState:
    """State of one client in one run.

    Args:
        run: Id of the run, as the server says.

    Raises:
        RefusalError: That is no id.
    """

    def __init__(self, work: Path, run: str) -> None:
        if not _RUN.fullmatch(run):
            raise RefusalError("the run has no proper id", "Use the same version of pfl-audit everywhere")
        self.folder = work / run
        self._path = self.folder / FILE
        self._kept: dict[str, Any] = read_json(self._path) if self._path.is_file() else {}

    @property
    def facts(self) -> dict[str, Any] | None:
        """What held when the client joined; None before."""
        return self._kept.get("facts")

    def begin(self, facts: dict[str, Any]) -> None:
        """Join, for the first time or again.

        Args:
            facts: What must stay as it is for the whole run.

        Raises:
            RefusalError: It is not as it was, or the run is over.
        """
        if self._kept.get("finished"):
            raise RefusalError("this run is over for it", "Begin a new run with another --out")
        if self.facts not in (None, facts):
            raise RefusalError(
                "its data, its start or the app's settings are not as when it joined",
                "Put them back, or begin a new run with another --out",
            )
        self._write(facts=facts, commitment=self._kept.get("commitment") or commit(facts["data"]))

    @property
    def commitment(self) -> str:
        """Commitment to the client's data; its salt stays in the journal."""
        return str(self._kept["commitment"]["commitment"])

    @property
    def sigma(self) -> float:
        """Noise multiplier by the client's own calculation when it joined, or 0 without privacy."""
        return float(self._kept["facts"]["sigma"])

    @property
    def canaries(self) -> dict[str, Any] | None:
        """What was taken as this client's part of the canaries; None before."""
        return self._kept.get("canaries")

    def take(self, canaries: dict[str, Any], agreement: Agreement) -> None:
        """Keep the client's part of the canaries, for the whole run.

        Raises:
            RefusalError: It has not joined, or it has taken another part.
        """
        self._require_joined(agreement)
        if self.canaries not in (None, canaries):
            raise RefusalError(
                "other canaries are sent than it has taken for this run", "Begin a new run with another --out"
            )
        self._write(canaries=canaries)

    def permit(self, order: RoundConfig, agreement: Agreement) -> None:
        """Check the numbers of a round before anything is computed for it.

        Raises:
            RefusalError: They are not as agreed when the client joined.
        """
        self._require_joined(agreement)
        if agreement.canaries and self.canaries is None:
            raise RefusalError("canaries were agreed, and it was sent none", "Use the same version everywhere")
        phase = agreement.of_phase(order.phase)
        number, rounds, (least, most) = order.number, phase.settings.rounds, phase.participants
        if not 1 <= number <= rounds:
            raise RefusalError(f"{rounds} rounds were agreed, and round {number} is asked for", "Keep to the app")
        if not least <= order.participants <= most:
            agreed = f"{most} clients" if least == most else f"{least} to {most} clients"
            raise RefusalError(
                f"{order.participants} participants are stated for round {number}, and {agreed} were agreed",
                "Keep to the app",
            )
        if order.quorum != agreement.quorum:
            raise RefusalError(
                f"a quorum of {order.quorum} is stated for round {number}, and {agreement.quorum} was agreed",
                "Keep to the app",
            )
        if order.sigma != self.sigma:
            raise RefusalError("the server states another noise than the settings need", "Install the same version")

    def answer_once(self, order: RoundConfig, weights: Tensor) -> None:
        """Remember the model of a private round.

        Raises:
            RefusalError: The round was answered over another model or with other participants.
        """
        asked = hashlib.sha256(weights.contiguous().numpy().tobytes()).hexdigest()
        seen = self._rounds.setdefault(order.name, {"weights": asked, "participants": order.participants})
        if (seen["weights"], seen["participants"]) != (asked, order.participants):
            raise RefusalError(
                f"round {order.name} is asked for again over another model, which would undo its noise",
                "Begin a new run with another --out",
            )
        self._write()

    def note(self, order: RoundConfig, report: Report) -> None:
        """Keep what became of the updates, for the client's own eyes."""
        self._rounds.setdefault(order.name, {}).update(updates=dict(report.tally), **mean_norms(report.norms))
        self._write()

    def finish(self) -> None:
        """Delete everything but the journal, and take no further part."""
        for path in self.folder.glob("*"):
            if path.is_dir():
                shutil.rmtree(path)
            elif path != self._path:
                path.unlink()
        self._write(finished=True)

    def _require_joined(self, agreement: Agreement) -> None:
        if self.facts is None or self._kept.get("finished"):
            raise RefusalError("it takes no part in this run", "Begin a new run with another --out")
        if self.facts["settings"] != agreement.digest:
            raise RefusalError("the app's settings are not as when it joined", "Keep to the app")

    @property
    def _rounds(self) -> dict[str, Any]:
        return self._kept.setdefault("rounds", {})

    def _write(self, **changes: Any) -> None:
        self._kept |= changes
        write_json(self._path, self._kept)
