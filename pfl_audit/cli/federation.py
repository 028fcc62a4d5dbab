"""``train --engine flower``: write the app of a federation instead of training here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pfl_audit.cli.console import note
from pfl_audit.errors import UsageError
from pfl_audit.files import require_new

if TYPE_CHECKING:
    from pfl_audit.training.federated.settings import PrivacySettings
    from pfl_audit.training.start import Settings, TrainRun


def write_federation(
    run: TrainRun,
    settings: Settings,
    privacy: PrivacySettings | None,
    app: Path | None,
    data: Path | None,
    *,
    clients: int,
    secure: bool,
    quorum: int,
) -> None:
    """Write the folder that ``flwr run`` takes.

    Args:
        data: Corpus whose held-out part the server looks at, or None.
        secure: Sum updates by SecAgg+.
        quorum: Clients that are enough for a round, or 0 for all of it.

    Raises:
        UsageError: Something is missing or cannot be, or Flower is not installed.
    """
    from pfl_audit.progress import Silent
    from pfl_audit.training.canaries import require_teachable
    from pfl_audit.training.federated.clients import Client
    from pfl_audit.training.federated.run import Federation
    from pfl_audit.training.federated.settings import FederatedSettings
    from pfl_audit.training.start import on_pages, open_trainable

    if not isinstance(settings, FederatedSettings):
        raise UsageError("central training has no federation", "Choose --mode fl or fl-dp")
    if run.start is None or app is None:
        raise UsageError(
            f"--engine flower needs {'--app' if run.start else '--from'}", "Give --app FOLDER and --from CHECKPOINT"
        )
    try:
        from pfl_audit.training.federated.flower.agreement import Agreement, start_fingerprint
        from pfl_audit.training.federated.flower.app_folder import write_app
        from pfl_audit.training.federated.flower.config import ServerConfig
    except ImportError as error:
        raise UsageError("--engine flower needs Flower", "Install it: pip install 'pfl-audit[flower]'") from error
    require_new(app)
    agreement = Agreement(
        run.mode, clients, start_fingerprint(run.start), run.lora, secure, settings, privacy, quorum, run.pretraining,
        run.canaries,
    )  # fmt: skip
    agreement.check()
    # What the server would refuse when its clients have joined, and reserved their budgets.
    federation = Federation(run.mode, settings, privacy, run.out, {}, pretraining=run.pretraining)
    federation.agree([Client(number, ()) for number in range(clients)], Silent())
    if run.pretraining or run.canaries:  # refuses a family that lacks what they need
        model = open_trainable(run.start, settings, run.device)
        on_pages(run.pretraining, model)
        if run.canaries:
            require_teachable(model)
    held_out = str(data.resolve()) if data else ""
    server = ServerConfig(
        str(run.start.resolve()), str(run.out.resolve()), held_out, run.half, run.device, keep_updates=run.keep_updates
    )
    write_app(app, agreement, server)
    note(f"{app}: app of a federation of {clients} clients. Start it with: flwr run {app} (see docs/federation.md)")
