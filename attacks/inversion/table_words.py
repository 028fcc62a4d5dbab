"""Words and coordinates of an update of a model without absolute positions, by the rows of its tables alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing, sent
from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.analytic.signals import rows_of
from pfl_audit.attacks.inversion.analytic.tables import find_tensor
from pfl_audit.attacks.inversion.tied_rows import rows_beside_output
from pfl_audit.attacks.inversion.update.traits import Traits, traits_of
from pfl_audit.errors import AuditError
from pfl_audit.models.word_tables import WordTables

_NOISE = Limit(
    Cause.NOISE,
    "words: rows that were looked up cannot be distinguished from those of the output, which every token has",
)
_ADAM = Limit(Cause.SIGNS, "words: the rows of all tokens changed by about the same amount, as after steps of Adam")
_ALIKE = 0.1
"""Median norm of a row over the largest one from which on all rows are alike: of gradients it is below 0.001."""
_WHOLE = 1e-3
"""Largest distance from a whole number that is one."""
_MOST = 0.99
"""Share of whole numbers from which on an update is a difference of weights: of a gradient 0.2 % are."""
_DIFFERENCE = 2 * sqrt(2 / 12)
"""Standard deviation of the rounding of both weights, in half steps."""
_HALF_STEP = 2.0**-24 / sqrt(12)
"""Standard deviation of the rounding of a half-precision number near 0."""


def words_of_tables(
    update: Mapping[str, Tensor], tables: WordTables, weights: Tensor | None = None
) -> tuple[frozenset[int], dict[str, frozenset[int]], tuple[Limit, ...]]:
    """Tokens and coordinates that were looked up.

    Args:
        update: By the names of the parameters.
        weights: Of the table of words before the update, (vocabulary, width), whose precision limits a difference of
            weights.

    Returns:
        Tokens; coordinates by table, where it was shared; and why something may be missing.

    Raises:
        AuditError: None of the tables is in the update, or a tensor is not that of the model.
    """
    word = find_tensor(update, tables.word.name, tables.word.shape)
    edges = {name: find_tensor(update, table.name, table.shape) for name, table in tables.edges.items()}
    shared = {name: part for name, part in edges.items() if part is not None}
    limits = [missing(f"the table of {name} coordinates", "they are unknown") for name in edges if name not in shared]
    if word is None and not shared:
        raise AuditError(
            "the gradient holds nothing of the tables of words and coordinates", "Share them, or use another method"
        )
    noise = _noise([*shared.values(), *([word] if word is not None and not tables.tied else [])], word)
    places = {name: frozenset(rows_of(part, noise).tolist()) for name, part in shared.items()}
    if word is None:
        return frozenset(), places, (*limits, missing("the table of words", "they are unknown"))
    if not tables.tied:
        return frozenset(rows_of(word, noise).tolist()), places, tuple(limits)
    cause = _hidden(word, noise, traits_of(update, [table.name for table in tables.edges.values()]))
    if cause is not None and cause.cause in (Cause.SIGNS, Cause.NOISE):
        return frozenset(), places, (*limits, cause)
    sigma = max(noise.sigma, _HALF_STEP if torch.equal(word.half().to(word), word) else 0.0, _of_weights(word, weights))
    found = rows_beside_output(word.double().numpy(), noise.rounding, sigma)
    if cause is None and not found.separate:
        cause = _NOISE
    return frozenset(found.rows.tolist()), places, (*limits, *((cause,) if cause is not None else ()))


def _hidden(word: Tensor, noise: Noise, traits: Traits) -> Limit | None:
    """What was done to the update that hides rows of the table of words, by its numbers."""
    norms = word.double().norm(dim=1)
    if float(norms.median()) > _ALIKE * float(norms.max()):
        return _NOISE if noise.everywhere else _ADAM
    return sent(replace(traits, rounded=None))


def _of_weights(word: Tensor, weights: Tensor | None) -> float:
    """Standard deviation of the rounding of a difference of weights; 0 for a gradient.

    A difference of two numbers in single precision is a whole number of the steps between numbers of their size.
    """
    if weights is None:
        return 0.0
    steps = np.spacing(np.abs(weights.detach().float().cpu().numpy())) / 2
    many = word.double().numpy() / steps
    share = float((np.abs(many - np.round(many)) < _WHOLE).mean())
    return float(np.sqrt((steps**2).mean())) * _DIFFERENCE if share > _MOST else 0.0


def _noise(looked_up: list[Tensor], word: Tensor | None) -> Noise:
    """Noise by rows that no page uses; rounding alone where no table shows it."""
    known = word if word is not None else looked_up[0]
    return noise_of(looked_up, looked_up[0] if looked_up else known, None)
