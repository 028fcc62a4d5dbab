"""Audits in a second process, beside those of this one.

Small networks leave a second core idle, while two audits fill two cores. Both use one response store, so that what one
process has asked a model, the other finds there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import TYPE_CHECKING

from pfl_audit.child_process import LOOK, follow
from pfl_audit.errors import AuditError

if TYPE_CHECKING:
    from pfl_audit.core.plan import AuditPlan
    from pfl_audit.core.results import Results


class SecondProcess:
    """A process that runs audits one after another and prints nothing; as a context, it ends with the block.

    Signals are handled by the process that started it alone. It ends with that process, however that ends.

    Args:
        plans: What to audit.
    """

    def __init__(self, plans: Sequence[AuditPlan]) -> None:
        self._plans = tuple(plans)
        self._process: BaseProcess | None = None

    def start(self) -> None:
        """Begin, and divide the threads of torch between the two processes."""
        import torch

        threads = max(1, torch.get_num_threads() // 2)
        torch.set_num_threads(threads)
        context = get_context("spawn")
        self._found, there = context.Pipe(duplex=False)
        self._process = context.Process(target=_audit, args=(self._plans, threads, there, os.getpid()), daemon=True)
        self._process.start()
        there.close()

    def results(self) -> list[Results]:
        """Wait for the results of all plans, in order; their reports are rendered.

        Raises:
            AuditError: An audit failed, or the process was killed.
        """
        try:
            found: list[Results] | tuple[str, str] = self._found.recv()
        except EOFError as error:
            time.sleep(LOOK / 4)  # a signal to all of us is an interrupt, and may reach this process last
            raise AuditError(
                "a process of the demo was killed, perhaps for want of memory", "Repeat the command to go on from there"
            ) from error
        if isinstance(found, tuple):
            raise AuditError(*found)
        return found

    def __enter__(self) -> SecondProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.join()


def _audit(plans: Sequence[AuditPlan], threads: int, there: Connection, parent: int) -> None:
    follow(parent)
    from pfl_audit.cli.libraries import restrain

    restrain()
    import torch

    from pfl_audit.cli.audit_command import run_and_show

    torch.set_num_threads(threads)
    try:
        there.send([run_and_show(plan, as_json=False, quiet=True, gate=False, show=False) for plan in plans])
    except AuditError as error:
        there.send((error.problem, error.remedy))
    except Exception as error:  # whose text may hold a value
        there.send((f"internal error: {type(error).__name__}", "Repeat the command, and report it"))
