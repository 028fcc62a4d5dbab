"""Likelihood ratio of a filling under the target and under a reference that was trained on public forms alone.

Source: the ratio to a reference model is that of Carlini et al. 2022 and of Ye et al. 2022, for fillings of a field.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pfl_audit.attacks.reconstruction.search import Guess, Reconstruction
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.form_protocol import Attempt, Blank, FormModel
from pfl_audit.progress import Progress

_FIELDS_AT_ONCE = 16


def with_ratios(
    found: Sequence[Reconstruction],
    blanks: Sequence[Blank],
    target: FormModel,
    reference: FormModel,
    *,
    progress: Progress,
    label: str = "",
) -> list[Reconstruction]:
    """The same reconstructions, each guess of the attack with its ratio.

    The ratio of a filling is the mean over its tokens of the reference's loss minus the target's, with the tokens
    before it filled in; a masked language model has one loss for the filling.

    Args:
        blanks: Blank of each reconstruction.
        reference: Model of the target's task and vocabulary.
        label: Name of the fields in the progress.
    """
    done: list[Reconstruction] = []
    with progress.task(f"ratios to the public target {label}".strip(), len(found)) as task:
        for at in range(0, len(found), _FIELDS_AT_ONCE):
            some = list(zip(found[at : at + _FIELDS_AT_ONCE], blanks[at : at + _FIELDS_AT_ONCE], strict=True))
            guesses = {(place, guess.tokens): blank for place, (one, blank) in enumerate(some) for guess in one.attack}
            ratios = _ratios([(blank, tokens) for (_, tokens), blank in guesses.items()], target, reference)
            known = dict(zip(guesses, ratios, strict=True))
            done += [
                replace(one, attack=tuple(_rated(guess, known[place, guess.tokens]) for guess in one.attack))
                for place, (one, _) in enumerate(some)
            ]
            task.advance(len(some))
    return done


def _rated(guess: Guess, ratio: float) -> Guess:
    return replace(guess, ratio=ratio)


def _ratios(fillings: Sequence[tuple[Blank, tuple[int, ...]]], target: FormModel, reference: FormModel) -> list[float]:
    first = len if target.task == "mlm" else lambda _: 1
    attempts = [
        Attempt(blank, tokens[:count]) for blank, tokens in fillings for count in range(first(tokens), len(tokens) + 1)
    ]
    gaps: Floats = np.asarray(reference.losses(attempts)) - np.asarray(target.losses(attempts))
    ends = np.cumsum([len(tokens) - first(tokens) + 1 for _, tokens in fillings])[:-1]
    return [float(part.mean()) for part in np.split(gaps, ends)]
