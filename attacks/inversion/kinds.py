"""Choices by name, importable without torch so that commands can list them quickly."""

from __future__ import annotations

from typing import Literal

Start = Literal["template", "noise"]
"""Initial pixels of a search."""
Layers = Literal["all", "pre-fusion", "post-fusion"]
"""Layers whose gradients are matched; ``pre-fusion`` are the layers that see the page alone."""
Match = Literal["layered", "relative", "euclidean", "cosine", "april"]
"""Distance between gradients; see ``matching.distance``."""
Scheduler = Literal["decay", "constant", "delayed"]
"""Schedule of the priors' weight; see ``priors.weight_at``."""
Search = Literal["adam", "signed-adam", "l-bfgs"]
"""The optimiser; signed Adam sees only the signs of the gradient with respect to the pixels."""
Known = Literal["recovered", "both", "question", "answer", "none", "characters"]
"""What the observer knows of question and answer."""
