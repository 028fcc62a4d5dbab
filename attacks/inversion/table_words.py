"""Words and coordinates of an update of a model without absolute positions, by the rows of its tables alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.adam_rows import rows_beside_common
from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing, sent
from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.analytic.signals import rows_of
from pfl_audit.attacks.inversion.analytic.tables import find_tensor
from pfl_audit.attacks.inversion.tied_rows import rows_beside_output
from pfl_audit.attacks.inversion.update.decay import without_decay
from pfl_audit.attacks.inversion.update.difference import rounding_of
from pfl_audit.attacks.inversion.update.traits import Traits, traits_of
from pfl_audit.errors import AuditError
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.word_encoder import Table
from pfl_audit.models.word_tables import WordTables

_NOISE = Limit(
    Cause.NOISE,
    "words: rows that were looked up may be below the errors of noise or rounding, or among the rows of the output",
)
_ADAM = Limit(Cause.SIGNS, "words: the rows of all tokens changed by about the same amount, as after steps of Adam")
_ALIKE = 0.1
"""Median norm of a row over the largest one from which on all rows are alike: of gradients it is below 0.001."""
_HALF_STEP = 2.0**-24 / sqrt(12)
"""Standard deviation of the rounding of a half-precision number near 0."""


@dataclass(frozen=True)
class LookedUp:
    """Tables whose rows are looked up.

    Attributes:
        word: Table of tokens.
        edges: Others, of which a page uses few rows, by name.
        tied: Whether the table of tokens scores the tokens of the answer as well.
    """

    word: Table
    edges: Mapping[str, Table]
    tied: bool

    @classmethod
    def of(cls, tables: WordTables) -> LookedUp:
        """Those of a model."""
        return cls(tables.word, tables.edges, tables.tied)


def words_of_tables(
    shared: Mapping[str, Tensor], tables: LookedUp, weights: Mapping[str, Tensor] | None = None, steps: int = 1
) -> tuple[frozenset[int], dict[str, frozenset[int]], tuple[Limit, ...]]:
    """Tokens and coordinates that were looked up.

    Args:
        shared: The update, by the names of the parameters.
        weights: What it was added to, by parameter: their decay is subtracted, and their precision limits a difference.
        steps: Optimiser steps of a difference of weights, each of which rounds.

    Returns:
        Tokens; coordinates by table, where it was shared; and why something may be missing.

    Raises:
        AuditError: None of the tables is in the update, or a tensor is not that of the model.
    """
    weights = weights or {}
    names = [name for table in tables.edges.values() for name in weights if name.endswith(table.name)]
    update = without_decay(shared, weights, tuple(names)).update
    word = find_tensor(update, tables.word.name, tables.word.shape)
    found = {name: find_tensor(update, table.name, table.shape) for name, table in tables.edges.items()}
    edges = {name: part for name, part in found.items() if part is not None}
    limits = [missing(f"the table of {name} coordinates", "they are unknown") for name in found if name not in edges]
    if word is None and not edges:
        raise AuditError(
            "the gradient holds nothing of the tables of words and coordinates", "Share them, or use another method"
        )
    noise = _noise([*edges.values(), *([word] if word is not None and not tables.tied else [])], word)
    places = {name: frozenset(rows_of(part, noise).tolist()) for name, part in edges.items()}
    if word is None:
        return frozenset(), places, (*limits, missing("the table of words", "they are unknown"))
    if not tables.tied:
        return frozenset(rows_of(word, noise).tolist()), places, tuple(limits)
    cause = _hidden(word, noise, traits_of(update, [table.name for table in tables.edges.values()]))
    if cause is _NOISE:
        return frozenset(), places, (*limits, cause)
    if cause is _ADAM:
        own = rows_beside_common(word.double().numpy())
        return frozenset(own.tolist()), places, (*limits, cause)
    sent_as, begun = (find_tensor(part, tables.word.name, tables.word.shape) for part in (shared, weights))
    errors = np.maximum(noise.sigma, _rounded(word, sent_as, begun, steps))
    if cause is not None and not word.any(dim=1).double().median():  # no quiet row was sent
        return frozenset(word.any(dim=1).nonzero()[:, 0].tolist()), places, (*limits, cause)
    beside = rows_beside_output(word.double().numpy(), noise.rounding, errors)
    if cause is None and beside.hidden:
        cause = _NOISE
    return frozenset(beside.rows.tolist()), places, (*limits, *((cause,) if cause is not None else ()))


def _hidden(word: Tensor, noise: Noise, traits: Traits) -> Limit | None:
    """What was done to the update that hides rows of the table of words, by its numbers."""
    norms = word.double().norm(dim=1)
    if float(norms.median()) > _ALIKE * float(norms.max()):
        return _NOISE if noise.everywhere else _ADAM
    return sent(replace(traits, rounded=None))


def _rounded(word: Tensor, sent_as: Tensor | None, weights: Tensor | None, steps: int) -> Floats:
    """Standard deviation of the rounding of an entry, beside that of its own size, float64 (vocabulary,).

    Args:
        word: Table of the update, without weight decay.
        sent_as: The same as it was sent.
        weights: The table before the update.
        steps: Optimiser steps, each of which rounds.
    """
    least = steps * np.full(len(word), _HALF_STEP if torch.equal(word.half().to(word), word) else 0.0)
    if weights is None or sent_as is None:
        return least
    rounded = rounding_of(sent_as, weights, steps)
    return least if rounded is None else np.maximum(least, rounded)


def _noise(looked_up: list[Tensor], word: Tensor | None) -> Noise:
    """Noise by rows that no page uses; rounding alone where no table shows it."""
    known = word if word is not None else looked_up[0]
    return noise_of(looked_up, looked_up[0] if looked_up else known, None)
