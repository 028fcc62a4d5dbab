"""Likelihood ratios of fillings to a model that was trained on public forms alone."""

import numpy as np
import pytest

from pfl_audit.attacks.reconstruction.evaluation import ratio_to_reference
from pfl_audit.attacks.reconstruction.ratios import with_ratios
from pfl_audit.attacks.reconstruction.search import Guess, Reconstruction
from pfl_audit.models.encoders.kinds import FormTask
from pfl_audit.models.form_protocol import Attempt
from pfl_audit.progress import Silent

from .fakes import Fake, blank, loses, noise

BLANKS = [blank(f"form {number}", "field", 1 + number % 4) for number in range(37)]


def guess(rng: np.random.Generator, length: int) -> Guess:
    return Guess(tuple(int(token) for token in rng.integers(3, 40, length)), (-1.0,) * length, (-2.0,) * length)


def found() -> list[Reconstruction]:
    rng = np.random.default_rng(0)
    made = []
    for one in BLANKS:
        first, second = guess(rng, one.length), guess(rng, one.length)
        made.append(Reconstruction(one.window.form.id, "field", (first, second, first), (first,)))
    return made


@pytest.mark.parametrize("task", ["ee-bio", "mlm"])
def test_each_is_the_mean_gap_of_the_losses(task: FormTask) -> None:
    logits = noise("l") if task == "mlm" else None
    target = Fake("target", logits=logits, losses=loses({}, "target"), task=task)
    reference = Fake("reference", logits=logits, losses=loses({}, "reference"), task=task)
    before = found()
    after = with_ratios(before, BLANKS, target, reference, progress=Silent())
    once = 2 * sum(1 if task == "mlm" else one.length for one in BLANKS)
    assert len(target.asked) == once, "attempts that are alike are asked once"
    for one, other, where in zip(before, after, BLANKS, strict=True):
        assert other.baseline == one.baseline
        for plain, rated in zip(one.attack, other.attack, strict=True):
            counts = [where.length] if task == "mlm" else range(1, where.length + 1)
            gaps = [
                reference.losses([Attempt(where, plain.tokens[:count])])[0]
                - target.losses([Attempt(where, plain.tokens[:count])])[0]
                for count in counts
            ]
            assert rated.ratio == pytest.approx(np.mean(gaps))
            assert ratio_to_reference(rated) == rated.ratio
            assert (rated.tokens, rated.log_target) == (plain.tokens, plain.log_target)


def test_what_the_target_alone_remembers_has_the_highest_ratio() -> None:
    made = found()
    known = {(one.form, "field"): one.attack[0].tokens for one in made}
    target = Fake("target", losses=loses(known, "target"), task="ee-bio")
    reference = Fake("reference", losses=loses({}, "reference"), task="ee-bio")
    after = with_ratios(made, BLANKS, target, reference, progress=Silent())
    right = [one.attack[0].ratio > one.attack[1].ratio for one in after]
    assert np.mean(right) > 0.9


def test_no_fields_need_no_model() -> None:
    silent = Fake("silent", losses=loses({}, "s"), task="ee-bio")
    assert with_ratios([], [], silent, silent, progress=Silent()) == []
    assert not silent.calls
