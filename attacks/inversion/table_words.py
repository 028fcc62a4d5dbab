"""Words and coordinates of an update of a model without absolute positions, by the rows of its tables alone."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, missing, restated
from pfl_audit.attacks.inversion.analytic.noise import Noise, noise_of
from pfl_audit.attacks.inversion.analytic.signals import rows_of
from pfl_audit.attacks.inversion.analytic.tables import find_tensor
from pfl_audit.attacks.inversion.tied_rows import rows_beside_output
from pfl_audit.attacks.inversion.update.traits import traits_of
from pfl_audit.errors import AuditError
from pfl_audit.models.word_tables import WordTables

_HALF_STEP = 2.0**-24 / sqrt(12)
"""Standard deviation of the rounding of a half-precision number near 0."""


def words_of_tables(
    update: Mapping[str, Tensor], tables: WordTables
) -> tuple[frozenset[int], dict[str, frozenset[int]], tuple[Limit, ...]]:
    """Tokens and coordinates that were looked up.

    Args:
        update: By the names of the parameters.

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
    half = torch.equal(word.half().to(word), word)
    found = rows_beside_output(word.double().numpy(), noise.rounding, max(noise.sigma, _HALF_STEP if half else 0.0))
    if not found.separate:
        limits.append(
            Limit(
                Cause.NOISE,
                "words: rows that were looked up cannot be told from those of the output, which every token of the "
                "vocabulary has",
            )
        )
    return (
        frozenset(found.rows.tolist()),
        places,
        restated(limits, traits_of(update, [table.name for table in tables.edges.values()])),
    )


def _noise(looked_up: list[Tensor], word: Tensor | None) -> Noise:
    """Noise by rows that no page uses; rounding alone where no table shows it."""
    known = word if word is not None else looked_up[0]
    return noise_of(looked_up, looked_up[0] if looked_up else known, None)
