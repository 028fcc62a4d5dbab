"""Boxes of pages of any size, against whole numbers."""

import numpy as np
import pytest

from pfl_audit.models.thousandths import thousandths


@pytest.mark.parametrize("side", [7, 754, 1000, 2480, 9999])
def test_pixels_and_thousandths_come_out_as_transformers_computes_them(side: int) -> None:
    pixels = np.arange(side + 1)
    shares = np.repeat((pixels / side).astype(np.float32)[:, None], 4, axis=1)
    assert (thousandths(shares) == (1000 * pixels // side)[:, None]).all()
    assert thousandths(shares, 99).max() == 99
