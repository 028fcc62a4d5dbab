"""Kinds of form encoders, by name; without torch and numpy, so that the command line can list them."""

from __future__ import annotations

from typing import Literal

FormTask = Literal["mlm", "ee-bio", "ee-spade", "el"]
"""Masked language modelling; entity extraction by BIO or SPADE tags; entity linking."""
TrainedBackbone = Literal["layoutlm", "bros", "bert"]
Backbone = Literal["layoutlm", "bros", "bert", "roberta", "lilt", "layoutlmv3"]
"""The last three are read and not trained."""
Modality = Literal["unimodal", "bimodal"]
LabelledTokens = Literal["word-starts", "fields"]
"""Tokens that SPADE and linking are scored at. ``word-starts``, as in the BROS release: a class or link for the first
token of every word, and a predecessor for every token, special ones included. ``fields``: a class and a predecessor
for every token of a word, and links among the first tokens of fields alone."""
