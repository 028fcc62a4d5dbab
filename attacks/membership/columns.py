"""Columns of the table of providers: feature groups G1 to G4 (privacy-aware-docvqa, section 5.2.2), and ours."""

from __future__ import annotations

from typing import Final

G1: Final = ("acc", "nls")
G2: Final = ("loss", "conf")
G3: Final = ("delta_loss", "delta_conf")
G4: Final = ("nls_mem", "delta_nls_mem")
SCRUBBED_RATIO: Final = "llr_mem"
"""Scrubbed-value likelihood ratio; not of the paper, whose G4 is made of answers alone."""
LIKELIHOODS: Final = ("loglik", "loglik_before", "llr")
SCORES: Final = ("lira", "rmia")

MEANING: Final = {
    "acc": "share of right answers",
    "nls": "normalised Levenshtein similarity of the answers (ANLS)",
    "loss": "mean loss of the right answers",
    "conf": "mean confidence",
    "delta_loss": "loss of the pre-trained model minus loss of the model (positive: training helped)",
    "delta_conf": "confidence of the model minus confidence of the pre-trained model",
    "nls_mem": "ANLS on pages whose provider name has been taken off",
    "delta_nls_mem": "how much the answer to no question changes once that answer is taken off the page",
    "loglik": "log-likelihood of the right answers under the model",
    "loglik_before": "log-likelihood of the right answers under the pre-trained model",
    "llr": "log-likelihood of the right answers under the model minus that under the pre-trained model",
    SCRUBBED_RATIO: "log-likelihood of the true provider name, a token, on pages without it, under the model minus "
    "that under the pre-trained model (not in the paper)",
    "loglik_mem": "log-likelihood of the true provider name, a token, on pages without it",
    "lira": "log-likelihood of the right answers above the mean of the reference models, in their standard deviations",
    "rmia": "probability of the right answers a token, over the mean of models with and without the provider (RMIA)",
}
