"""Calls that the tests of clusters send to other processes."""

import os
import signal
import time
from pathlib import Path

from pfl_audit.models.protocol import DocumentModel
from pfl_audit.progress import Task


def die_once(marker: Path, model: DocumentModel, task: Task) -> int:
    if not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return os.getpid()


def pid(model: DocumentModel, task: Task) -> int:
    time.sleep(0.2)
    return os.getpid()


def fail(model: DocumentModel, task: Task) -> None:
    raise ValueError("Acme Media owes 12.00")
