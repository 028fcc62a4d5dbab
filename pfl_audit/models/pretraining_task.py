"""Tasks of self-pretraining, their forms, masking rates and prompts (federated-docvqa-pilot, section 3.3)."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Task(StrEnum):
    """What a model predicts of masked units."""

    TEXT = "tm"
    """Text modelling: the text at given locations."""
    LAYOUT = "lm"
    """Layout modelling: the locations of a given text."""
    TEXT_LAYOUT = "tlm"
    """Text and layout modelling: both."""


RATES: Final = {Task.TEXT: 0.5, Task.LAYOUT: 0.75, Task.TEXT_LAYOUT: 0.15}
"""Probability p_m that a unit is masked."""


class Form(StrEnum):
    """Form of the examples."""

    PAPER = "paper"
    """Tokens are masked, nothing precedes the page, and text modelling closes no sentinel."""
    CODE = "code"
    """Words are masked, a prompt names the task, and text modelling has a closing sentinel, as in the authors' code."""


PROMPTS: Final = {
    Task.TEXT: "text modeling",
    Task.LAYOUT: "layout modeling.",
    Task.TEXT_LAYOUT: "joint text-layout modeling.",
}
"""Prompts of the form ``code``, with and without a full stop as there."""
