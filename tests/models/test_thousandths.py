"""Boxes of pages of any size, against whole numbers."""

import numpy as np
import pytest
import torch

from pfl_audit.models.encoders.network import _thousandths
from pfl_audit.models.thousandths import thousandths


@pytest.mark.parametrize("side", [7, 754, 1000, 2480, 9999])
def test_pixels_and_thousandths_come_out_as_transformers_computes_them(side: int) -> None:
    pixels = np.arange(side + 1)
    shares = np.repeat((pixels / side).astype(np.float32)[:, None], 4, axis=1)
    assert (thousandths(shares) == (1000 * pixels // side)[:, None]).all()
    assert thousandths(shares, 99).max() == 99


def test_form_encoders_round_to_the_nearest_and_so_differ_by_one_at_most() -> None:
    """Their checkpoints were trained so; see docs/training-forms.md."""
    shares = np.repeat((np.arange(2481) / 2480).astype(np.float32)[:, None], 4, axis=1)
    apart = _thousandths(torch.from_numpy(shares)).numpy() - thousandths(shares)
    assert set(apart.flat) == {0, 1}
    whole = np.repeat((np.arange(1001) / 1000).astype(np.float32)[:, None], 4, axis=1)
    assert (_thousandths(torch.from_numpy(whole)).numpy() == thousandths(whole)).all()
