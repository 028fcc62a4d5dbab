"""Losses of tokens, against a slow oracle."""

import pytest
import torch

from pfl_audit.errors import AuditError
from pfl_audit.models.samples import IGNORED, as_scores, mean_losses


def drawn() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 7, generator=generator)
    labels = torch.randint(7, (3, 5), generator=generator)
    labels[0, 3:] = labels[2, 1:] = labels[1, 0] = IGNORED
    return logits, labels


def test_each_token_has_its_negative_log_likelihood() -> None:
    logits, labels = drawn()
    means, counts = mean_losses(logits, labels)
    for row, score in enumerate(as_scores(logits, labels)):
        places = [at for at in range(5) if labels[row, at] != IGNORED]
        slow = [-float(logits[row, at].double().softmax(-1)[labels[row, at]].log()) for at in places]
        assert score.token_losses == pytest.approx(slow, rel=1e-5, abs=1e-6)
        assert score.loss == float(means[row]) == pytest.approx(sum(slow) / len(slow))
        assert score.tokens == int(counts[row]) == len(slow)


def test_scores_in_half_precision_are_singles() -> None:
    logits, labels = drawn()
    (first, *_) = as_scores(logits.bfloat16(), labels)
    assert first.token_losses == tuple(torch.tensor(first.token_losses).tolist())


def test_losses_that_are_not_finite_are_refused() -> None:
    logits, labels = drawn()
    logits[1, 2] = float("nan")
    with pytest.raises(AuditError, match="NaN or infinite losses"):
        as_scores(logits, labels)
