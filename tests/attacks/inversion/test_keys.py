"""What a search brought back is found again for the same question alone."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from pfl_audit.attacks.inversion.context import Case, Observation, Truth
from pfl_audit.attacks.inversion.run import _key
from pfl_audit.attacks.inversion.settings import InversionSettings


def key(known: Any, *ids: int, method: str = "lbfgs") -> str:
    context: Any = SimpleNamespace(model=SimpleNamespace(fingerprint="m"), seed=0)
    template: Any = SimpleNamespace(digest="t")
    seen = Observation("document 1", template, {"w": torch.ones(2)})
    truths = (Truth(np.zeros((1, 1, 3), np.uint8), {"ids": torch.tensor(ids)}, None),) if ids else ()
    return _key(context, Case(seen, truths), InversionSettings(known=known), method)


def test_texts_that_the_observer_is_given_are_part_of_the_key() -> None:
    assert key("both", 1, 2) != key("both", 1, 3)
    assert key("recovered", 1, 2) == key("recovered", 1, 3) == key("recovered")
    assert key("recovered", 1, 2, method="dlg") != key("recovered", 1, 3, method="dlg")
