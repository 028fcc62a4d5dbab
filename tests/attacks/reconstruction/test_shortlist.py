"""Candidates that are named by estimates of the target's losses instead of the public model alone."""

import numpy as np
import pytest

from pfl_audit.attacks.reconstruction.guessing import rank_truths
from pfl_audit.attacks.reconstruction.proposals import proposer
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.form_protocol import Attempt
from pfl_audit.progress import Silent

from .fakes import SPECIAL, VOCABULARY, Fake, Says, blank, loses, noise

ALL = ReconstructionSettings(candidates=len(VOCABULARY) - SPECIAL)
FEW = ALL.model_copy(update={"candidates": 5, "shortlist": "gradient"})
FIELD = blank("form", "field", 3)


def tagger(losses: Says, *, estimates: bool = True) -> Fake:
    return Fake("tagger", losses=losses, estimates=estimates, task="ee-bio")


def public() -> Fake:
    return Fake("public", logits=noise("public"))


@pytest.mark.parametrize("weight", [0.0, 0.4, 1.0])
def test_good_estimates_name_the_likeliest_of_the_whole_vocabulary(weight: float) -> None:
    target = tagger(loses({}, "tagger"))
    settings = {"weight": weight}
    (every,) = proposer(public(), target, ALL.model_copy(update=settings)).propose([Attempt(FIELD)], 0)
    (few,) = proposer(public(), target, FEW.model_copy(update=settings)).propose([Attempt(FIELD)], 0)
    best = every.tokens[np.argsort(-every.log_target, kind="stable")][:5]
    assert set(few.tokens.tolist()) == set(best.tolist())
    np.testing.assert_allclose(np.exp(few.log_target).sum(), 1.0)
    np.testing.assert_allclose(np.exp(few.log_public).sum(), 1.0)


def test_a_value_that_the_public_model_never_names_is_put_back() -> None:
    logits = public().token_logits([Attempt(FIELD)])[0]
    unlikely = int(np.argmin(np.where(np.isfinite(logits), logits, np.inf)))
    truth = (unlikely, unlikely, unlikely)
    known = {("form", "field"): truth}

    def flat(attempt: Attempt) -> np.ndarray:
        return logits.copy()

    target, other = tagger(loses(known, "tagger")), Fake("public", logits=flat)
    found = {}
    for name in ("public", "gradient"):
        settings = FEW.model_copy(update={"shortlist": name, "weight": 0.9})
        by = proposer(other, target, settings)
        (found[name],) = rank_truths([(FIELD, truth)], by, 64, 500, progress=Silent())
    assert found["gradient"].within(1)
    assert not found["public"].within(64)


def test_who_cannot_estimate_is_refused() -> None:
    with pytest.raises(UsageError, match=r"ee-bio.* gives no estimated losses"):
        proposer(public(), tagger(loses({}, "tagger"), estimates=False), FEW)
    with pytest.raises(UsageError, match=r"mlm.* gives no estimated losses"):
        proposer(public(), Fake("private", logits=noise("p"), losses=loses({}, "p")), FEW)
    broken = tagger(lambda _: float("nan"))
    with pytest.raises(AuditError, match="estimated losses that are not numbers"):
        proposer(public(), broken, FEW).propose([Attempt(FIELD)], 0)


def test_the_shortlist_is_part_of_what_is_kept() -> None:
    target = tagger(loses({}, "tagger"))
    names = {
        proposer(public(), target, FEW.model_copy(update={"shortlist": name})).identity
        for name in ("public", "gradient")
    }
    assert len(names) == 2
