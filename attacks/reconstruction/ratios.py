"""Likelihood ratio of a filling under the target and under a reference that was trained on public forms alone.

Source: the ratio to a reference model is that of Carlini et al. 2022 and of Ye et al. 2022, for fillings of a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from pfl_audit.attacks.reconstruction.calls import Pair
from pfl_audit.attacks.reconstruction.search import Reconstruction
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.calls import Calls, InTurn, taken
from pfl_audit.models.form_protocol import Attempt, Blank, FormModel
from pfl_audit.progress import Progress, Task

_FIELDS_AT_ONCE = 16


def with_ratios(
    found: Sequence[Reconstruction],
    blanks: Sequence[Blank],
    target: FormModel,
    reference: FormModel,
    *,
    progress: Progress,
    label: str = "",
    calls: Calls[Pair] | None = None,
) -> list[Reconstruction]:
    """The same reconstructions, each guess of the attack with its ratio.

    The ratio of a filling is the mean over its tokens of the reference's loss minus the target's, with the tokens
    before it filled in; a masked language model has one loss for the filling.

    Args:
        blanks: Blank of each reconstruction.
        reference: Model of the target's task and vocabulary.
        label: Name of the fields in the progress.
        calls: What holds target and reference; this process where not given.
    """
    starts = range(0, len(found), _FIELDS_AT_ONCE)
    chunks = [slice(start, start + _FIELDS_AT_ONCE) for start in starts]
    tokens = [[dict.fromkeys(guess.tokens for guess in one.attack) for one in found[chunk]] for chunk in chunks]
    works = [
        partial(_ratios, [(blank, one) for blank, some in zip(blanks[chunk], of, strict=True) for one in some])
        for chunk, of in zip(chunks, tokens, strict=True)
    ]
    done: dict[int, list[Reconstruction]] = {}
    units = [len(found[chunk]) for chunk in chunks]
    with progress.task(f"ratios to the public target {label}".strip(), len(found)) as task:
        for at, ratios in taken(calls or InTurn((target, reference)), works, _are_numbers, task, units):
            left = iter(ratios)
            known = [dict(zip(some, left, strict=False)) for some in tokens[at]]
            done[at] = [
                replace(one, attack=tuple(replace(guess, ratio=of[guess.tokens]) for guess in one.attack))
                for one, of in zip(found[chunks[at]], known, strict=True)
            ]
    return [one for at in sorted(done) for one in done[at]]


def _are_numbers(found: object) -> bool:
    return isinstance(found, list) and all(isinstance(one, float) for one in found)


def _ratios(fillings: Sequence[tuple[Blank, tuple[int, ...]]], pair: Pair, task: Task) -> list[float]:
    target, reference = pair
    first = len if target.task == "mlm" else lambda _: 1
    attempts = [
        Attempt(blank, tokens[:count]) for blank, tokens in fillings for count in range(first(tokens), len(tokens) + 1)
    ]
    gaps: Floats = np.asarray(reference.losses(attempts)) - np.asarray(target.losses(attempts))
    ends = np.cumsum([len(tokens) - first(tokens) + 1 for _, tokens in fillings])[:-1]
    return [float(part.mean()) for part in np.split(gaps, ends)]
