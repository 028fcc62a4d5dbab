"""Results that cannot be scored, since the client's page is not given: kept in the private folder."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pfl_audit.attacks.inversion.case import Case
from pfl_audit.attacks.inversion.context import GradientContext
from pfl_audit.errors import NotAuditableError


def keep_page(context: GradientContext, method: str, case: Case, page: NDArray[np.uint8]) -> None:
    """Keep pixels, uint8 (height, width, 3), as ``private/METHOD-DOCUMENT.jpg``."""
    context.evidence.keep_page(f"{method}-{case.seen.stem}", Image.fromarray(page))


def keep_text(context: GradientContext, method: str, case: Case, found: Mapping[str, object]) -> None:
    """Keep words as ``private/METHOD-DOCUMENT.json``."""
    context.evidence.keep_json(f"{method}-{case.seen.stem}", found)


def unscored() -> NotAuditableError:
    """The error of an audit in which no gradient can be scored."""
    return NotAuditableError(
        "without the page that the client trained on nothing can be scored; what came back lies in private/",
        "Give --document, --question and --answer",
    )
