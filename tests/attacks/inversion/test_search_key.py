"""What a stored search belongs to."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pfl_audit.attacks.inversion import run
from pfl_audit.attacks.inversion.context import Observation
from pfl_audit.attacks.inversion.settings import InversionSettings
from tests.attacks.inversion.gradient_fakes import FakeGradients
from tests.attacks.inversion.template.drawn import form


def test_a_search_of_another_version_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is mended in a search would stay as it was in a store that several runs share."""
    context: Any = SimpleNamespace(model=FakeGradients(), seed=0)
    case: Any = SimpleNamespace(seen=Observation("document 1", form(), {"2.weight": torch.ones(2)}, 1), truths=())

    def key() -> str:
        return run._key(context, case, InversionSettings(), "lbfgs")

    before = key()
    assert key() == before
    monkeypatch.setattr(run, "__version__", "0.0.0")
    assert key() != before
