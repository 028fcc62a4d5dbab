"""Choices, by name; without torch, so that commands can list them at once."""

from __future__ import annotations

from typing import Literal

Start = Literal["template", "noise"]
"""Where a search begins."""
Layers = Literal["all", "pre-fusion", "post-fusion"]
"""Whose gradients are matched; ``pre-fusion`` are the layers that see the page alone."""
Match = Literal["layered", "relative", "euclidean", "cosine", "april"]
"""How gradients are compared; see ``matching.distance``."""
Scheduler = Literal["decay", "constant", "delayed"]
"""When priors count; see ``priors.weight_at``."""
Search = Literal["adam", "signed-adam", "l-bfgs"]
"""The optimiser; signed Adam sees only the signs of the gradient with respect to the pixels."""
Known = Literal["recovered", "both", "question", "answer", "none", "characters"]
"""What the observer has of question and answer."""
