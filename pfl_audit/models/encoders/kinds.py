"""Kinds of form encoders, by name; without torch and numpy, so that the command line can list them."""

from __future__ import annotations

from typing import Literal

FormTask = Literal["mlm", "ee-bio", "ee-spade", "el"]
"""Masked language modelling; entity extraction by BIO or SPADE tags; entity linking."""
Backbone = Literal["layoutlm", "bros", "bert"]
Modality = Literal["unimodal", "bimodal"]
