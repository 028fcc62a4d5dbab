"""Features of providers that leak as much as a test wants: nothing, or by construction."""

import numpy as np
import pandas as pd

from pfl_audit.attacks.membership.question_scores import lira_scores, rmia_scores

COLUMNS = ("acc", "nls", "loss", "conf", "delta_loss", "delta_conf", "nls_mem", "delta_nls_mem", "log_odds_ratio")


def table(
    members: int, others: int, rng: np.random.Generator, *, leak: float = 0.0, scrubbed_leak: float | None = None
) -> tuple[pd.DataFrame, np.ndarray]:
    """One row a provider.

    Args:
        members: How many members.
        others: How many non-members.
        rng: The only source of chance.
        leak: How many standard deviations the members' features stand apart.
        scrubbed_leak: The same of the likelihood ratio on scrubbed pages; ``leak`` unless it is given.
    """
    labels = np.array([True] * members + [False] * others)
    base = rng.normal(size=(len(labels), len(COLUMNS))) + leak * labels[:, None]
    frame = pd.DataFrame(base, columns=list(COLUMNS), index=[f"provider {n:04d}" for n in range(len(labels))])
    frame["nls_mem"] = (frame["nls_mem"] > 1.5).astype(float)
    frame["delta_nls_mem"] = -frame["delta_nls_mem"]
    frame["loss"] = -frame["loss"]
    frame["queries"] = rng.integers(3, 20, size=len(labels))
    frame["log_odds_before"] = rng.normal(size=len(labels))
    frame["log_odds"] = 0.7 * frame["log_odds_before"] + frame["log_odds_ratio"]
    # Chance of their own, so that the other features are what they would be without.
    references = 0.7 * frame[["log_odds_before"]].to_numpy() + rng.spawn(1)[0].normal(size=(len(labels), 4))
    frame["lira"] = lira_scores(frame["log_odds"].to_numpy(), references)
    frame["rmia"] = rmia_scores(3 - 0.3 * frame["log_odds"].to_numpy(), 3 - 0.3 * references, frame.index)
    apart = leak if scrubbed_leak is None else scrubbed_leak
    frame["llr_mem"] = rng.spawn(1)[0].normal(size=len(labels)) + apart * labels
    frame["log_odds_ratio_out"] = rng.spawn(1)[0].normal(size=len(labels)) + leak * labels
    frame["residual"] = 0.7 * frame["log_odds_ratio"] + 0.7 * (rng.spawn(1)[0].normal(size=len(labels)) + leak * labels)
    frame["windows"], frame["hard_tokens"] = frame["log_odds_ratio"], frame["residual"]
    frame["llr_mem_out"] = rng.spawn(1)[0].normal(size=len(labels)) + apart * labels
    shuffle = rng.permutation(len(labels))
    frame = frame.iloc[shuffle]
    frame.index = [f"provider {n:04d}" for n in rng.permutation(len(labels))]
    return frame, labels[shuffle]
