"""One interpreter that forks, shared by the cases of a test process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hostile.run import Zygote


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    """Runs commands under limits."""
    runner = Zygote()
    yield runner
    runner.close()
