"""Parties of a federation, and silence from Flower."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.training.federated.flower.parties import Parties


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.getLogger("flwr").setLevel(logging.CRITICAL)


@pytest.fixture
def parties(corpus_folder: Path, make_checkpoint: Callable[[int], Path], tmp_path: Path) -> Parties:
    from tests.training.federated.flower.parties import Parties  # needs Flower

    return Parties(corpus_folder, make_checkpoint(0), tmp_path)
