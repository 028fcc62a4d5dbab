"""Checks of gradient inversion."""

from __future__ import annotations

from pfl_audit.attacks.inversion.inputs import GRADIENT, MESSAGES
from pfl_audit.attacks.inversion.methods import METHODS
from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.review import Review
from pfl_audit.models.protocol import Capability

_KNOWS = "the model's weights at that step, and the empty form that the client filled in"
_BLIND = "the model's weights at that step"
_SEES = "one client's gradient, as the server of federated learning does"
_REVIEW = Review(
    question="What does one shared update give away of a client's page?",
    classes=("model inversion", "reconstruction"),
    access="updates",
    obtains="documents",
    nist=("data reconstruction",),
    atlas=("AML.T0024.001",),
)
TEXT = CheckSpec(
    "inversion.text",
    "Question and answer out of a gradient",
    frozenset({Capability.GRADIENT, Capability.TEXT_DECODER, GRADIENT}),
    {"knows": _BLIND, "sees": _SEES, "does": "solves for the tokens, from the rows and the span of the gradient"},
    optional=True,
    review=_REVIEW,
)
ANALYTIC = CheckSpec(
    "inversion.analytic",
    "Words, boxes and page out of a gradient, in closed form",
    frozenset({Capability.GRADIENT, Capability.WORD_ENCODER, GRADIENT}),
    {
        "knows": "the model's architecture; of adapters and of updates without tables, its weights at that step",
        "sees": _SEES,
        "does": "solves linear systems; of adapters seeks the fewest tokens that explain their rows, and without "
        "tables tests which tokens and boxes lie in the span of the first layer's inputs",
    },
    optional=True,
    review=_REVIEW,
)
WORDS = CheckSpec(
    "inversion.words",
    "Words and coordinates of all pages of an update",
    frozenset({Capability.GRADIENT, GRADIENT}),
    {
        "knows": "the model's architecture; of a VT5, of batches of a LayoutLM, of adapters and of updates without "
        "tables, its weights at that step, and an empty form",
        "sees": "an update of one client or of several, as a server of federated learning does",
        "does": "looks at which rows of the tables of words and coordinates changed, of a VT5, of batches of a "
        "LayoutLM and without tables at the span of the first layers' inputs, and of adapters at their rows",
    },
    optional=True,
    review=_REVIEW,
)
FEDERATION = CheckSpec(
    "inversion.messages",
    "Words and coordinates of clients' pages in the messages of a federation",
    frozenset({Capability.GRADIENT, MESSAGES}),
    {
        "knows": "the model's architecture; of a VT5 its weights at that step",
        "sees": "every message of the federation, as its server does",
        "does": "looks at which rows of the tables of words and coordinates each message changed, and "
        "of a VT5 at the span of its first layers' inputs",
    },
    optional=True,
    review=_REVIEW,
)
SEARCH = "lbfgs"
"""The search that runs by default."""
SEARCHES = {
    name: CheckSpec(
        f"inversion.{name}",
        f"Private fields out of a gradient: {method.title}",
        frozenset({Capability.GRADIENT, GRADIENT}),
        {
            "knows": _KNOWS if method.template else _BLIND,
            "sees": _SEES,
            "does": "changes pixels until their gradient is the one that was shared",
        },
        review=_REVIEW,
        on_request=None if name == SEARCH else "a published method, for comparison with ours",
    )
    for name, method in METHODS.items()
}
