"""Form encoders on a device of their own; see test_families.py."""

from pathlib import Path

import numpy as np
import pytest

from pfl_audit.documents.forms.form import Form
from pfl_audit.models.encoders.model import EncoderModel
from tests.fake_gpu import FakeGpu
from tests.models.encoders.test_model import forms, model, some_attempts

__all__ = ["forms"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("backbone", "task"),
    [("layoutlm", "mlm"), ("bros", "el"), ("bros", "mlm"), ("bert", "ee-bio"), ("layoutlm", "ee-spade")],
)
def test_no_tensor_is_left_on_another_device_and_full_memory_costs_nothing(
    backbone: str, task: str, forms: list[Form]
) -> None:
    def asked(one: EncoderModel) -> list[np.ndarray]:
        some = one.token_logits if task == "mlm" else one.estimated_losses
        return [one.losses(attempts), some([a for a in attempts if len(a.tokens) < a.blank.length])]

    here = model(backbone, task, "bimodal")
    attempts = some_attempts(here, forms, full=True)[:16]
    true = asked(here)
    with FakeGpu() as gpu:
        there = model(backbone, task, "bimodal", device="cuda")
        gpu.largest = 0
        for found, expected in zip(asked(there), true, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        together, gpu.largest = gpu.largest, 0
        there.losses(attempts[:1])
        gpu.memory = max(gpu.largest, together // 3)
        for found, expected in zip(asked(there), true, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        assert (gpu.exhausted > 0) == (there.batch_budget.found is not None) == (gpu.memory < together)


def test_answers_of_another_device_are_kept_apart() -> None:
    with FakeGpu():
        there = model("bert", "mlm", device="cuda")
    assert there.fingerprint != model("bert", "mlm").fingerprint
    assert there.folder == Path("somewhere")
