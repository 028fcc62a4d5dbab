"""Which files of tests run together in one of several test processes."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

_TOGETHER = (
    "tests/attacks/inversion/test_workers.py", "tests/attacks/reconstruction/test_tuning.py",
    "tests/attacks/test_docmia.py", "tests/ci/test_action.py", "tests/cli/test_main.py",
    "tests/cli/test_reconstruct.py", "tests/cli/test_reconstruct_workers.py", "tests/cli/test_targets.py",
    "tests/core/test_sigkill.py", "tests/models/test_page_reader.py", "tests/models/test_processes.py",
    "tests/training/test_several_processes.py",
)  # fmt: skip
"""Users of ``commands`` and ``warm_workers``: each is an interpreter that imports all libraries, 8 CPU seconds."""


class Schedule(LoadFileScheduling):
    """As ``--dist loadfile``, with files together that start the same interpreters: one process starts them once."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return _TOGETHER[0] if file in _TOGETHER else file
