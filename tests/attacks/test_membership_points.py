"""The scatter plot of a report with names: the order of its points is that of their values."""

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership.present import scatter
from pfl_audit.documents.units import PROVIDER

TABLE = pd.DataFrame(
    {"acc": [3 / 7, 1.0, 0.0, 2 / 3, 0.5, 1 / 3], "nls": [0.9, 1.0, 0.0, 0.8, 0.61234, 0.4]},
    index=pd.Index(list("abcdef"), name="unit"),
)
LABELS = np.array([True, True, True, False, False, False])
AXES = ("x", "y")


def test_points_are_in_the_order_of_their_values() -> None:
    curve = scatter(TABLE, LABELS, ("acc", "nls"), AXES, PROVIDER)
    members, others = curve.series
    assert (members.x, members.y) == ([0.0, 0.4286, 1.0], [0.0, 0.9, 1.0])
    assert (others.x, others.y) == ([0.3333, 0.5, 0.6667], [0.4, 0.6123, 0.8])


def test_a_class_without_a_company_has_no_points() -> None:
    curve = scatter(TABLE, np.zeros(6, dtype=bool), ("acc", "nls"), AXES, PROVIDER)
    assert [len(one.x) for one in curve.series] == [0, 6]
