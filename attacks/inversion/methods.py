"""Methods of gradient matching: distance, priors and optimiser of each.

Learning rates are on the scale 0 to 1; docs/inversion.md says where they and the starts differ from the papers. All get
the same number of gradients of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pfl_audit.attacks.inversion.settings import Match, Search, Start


@dataclass(frozen=True)
class Method:
    """An attack by optimisation.

    Attributes:
        match: Distance between gradients.
        search: The optimiser; signed Adam sees only the signs of the gradient with respect to the pixels.
        rate: Learning rate at the start, pixels from 0 to 1.
        fall: Final learning rate over the initial one.
        start: Initial pixels.
        grey: Whether it takes pixels to be grey.
        priors: Which priors count: those of GI-DQA, ``variation`` (total variation only) or none.
        template: Whether the observer's template is used, as published.
        enough: Objective at which the search ends.
        text: Whether question and answer are recovered first, as published; else they are random tokens.
    """

    title: str
    match: Match
    search: Search
    rate: float
    fall: float = 1.0
    start: Start = "noise"
    grey: bool = False
    priors: Literal["gi-dqa", "variation", "none"] = "none"
    template: bool = False
    enough: float = 0.0
    text: bool = True


METHODS = {
    "gi_dqa": Method(
        "GI-DQA", "layered", "adam", rate=0.05, fall=0.1, start="template", priors="gi-dqa", template=True
    ),
    "lbfgs": Method(
        "Least squares by L-BFGS",
        "relative",
        "l-bfgs",
        rate=1.0,
        start="template",
        grey=True,
        template=True,
        enough=1e-6,
    ),
    "dlg": Method("Deep Leakage from Gradients", "euclidean", "l-bfgs", rate=1.0, text=False),
    "idlg": Method("Improved DLG", "euclidean", "l-bfgs", rate=1.0),
    "inverting_gradients": Method(
        "Inverting Gradients", "cosine", "signed-adam", rate=0.1, fall=1e-3, priors="variation"
    ),
    "april": Method("APRIL", "april", "adam", rate=0.1, fall=0.1),
}
"""By the name of the check. ``lbfgs`` is ours: pixels are grey and start from the empty form, every layer counts the
same, and a quasi-Newton search does the rest."""
