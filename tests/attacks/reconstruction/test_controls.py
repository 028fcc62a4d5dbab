"""What the attack finds where the target leaks by construction, and where it has nothing to tell."""

import numpy as np
import pytest

from pfl_audit.attacks.reconstruction.evaluation import METRICS, evaluate
from pfl_audit.attacks.reconstruction.outcomes import Attacked, Evaluation
from pfl_audit.attacks.reconstruction.proposals import proposers
from pfl_audit.attacks.reconstruction.search import reconstruct
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.progress import Silent

from .fakes import Fake, blank, fields, knows, loses, noise

SETTINGS = ReconstructionSettings(candidates=37, attempts=4)
Truths = dict[tuple[str, str], tuple[int, ...]]


def attack(
    truths: Truths, public: Fake, target: Fake, settings: ReconstructionSettings, seed: int = 0
) -> list[Attacked]:
    blanks = [blank(form, field, len(truth)) for (form, field), truth in truths.items()]
    found = reconstruct(blanks, *proposers(public, target, settings), settings, seed, progress=Silent())
    return [Attacked(one.form, truths[one.form, one.field], one) for one in found]


def score(fields: list[Attacked], seed: int = 0) -> Evaluation:
    return evaluate(fields, SETTINGS.epsilon, np.random.default_rng(seed), resamples=250)


@pytest.mark.parametrize("task", ["mlm", "ee-bio"])
def test_positive_control(task) -> None:  # type: ignore[no-untyped-def]
    """Random values that public knowledge cannot guess, half of which the target has memorised."""
    rng = np.random.default_rng(0)
    truths, others = fields(40, 2, rng), fields(20, 2, rng, "control")
    memorised = dict(list(truths.items())[::2])
    target = Fake("target", logits=knows(memorised, 1, 8.0), losses=loses(memorised, 1), task=task)
    public = Fake("public", logits=noise(2, 0.1))
    settings = SETTINGS.model_copy(update={"weight": 0.6})
    found, control = (score(attack(some, public, target, settings)) for some in (truths, others))
    perfect = found.one_shot.scores["PR"]
    assert perfect.attack.value >= 0.2
    assert perfect.attack.value >= 10 * perfect.baseline.value
    assert found.one_shot.improvement.low > 1.5
    assert control.one_shot.improvement.low <= 1 <= control.one_shot.improvement.high
    assert found.one_shot.improvement.low > control.one_shot.improvement.high
    ratio = found.multi_shot["perplexity ratio"]
    assert ratio.first["PR"].low > 0
    assert ratio.first["Hamming similarity"].low > 0
    assert ratio.scores["AccAUC"].difference.low > 0
    assert ratio.scores["HamAAC"].difference.low > 0
    assert ratio.scores["AccAt 5 %"].attack.value > 2 * ratio.scores["AccAt 100 %"].attack.value - 0.2


@pytest.mark.sampled(1)
@pytest.mark.parametrize("task", ["mlm", "ee-bio"])
def test_negative_control(task) -> None:  # type: ignore[no-untyped-def]
    """A target that knows other forms: in about 95 of 100 draws the interval of the factor holds 1."""
    draws = 40
    holds = above = first = 0
    settings = SETTINGS.model_copy(update={"attempts": 1, "candidates": 6})
    for seed in range(draws):
        rng = np.random.default_rng(1000 + seed)
        truths = fields(40, 1, rng)
        elsewhere = fields(40, 1, rng, "other")
        target = Fake(f"{seed}", logits=knows(elsewhere, [seed, 1], 8.0), losses=loses(elsewhere, [seed, 1]), task=task)
        public = Fake(f"public {seed}", logits=noise([seed, 2]))
        found = score(attack(truths, public, target, settings, seed), seed)
        factor = found.one_shot.improvement
        holds += factor.low <= 1 <= factor.high
        above += factor.low > 1
        first += found.multi_shot["perplexity ratio"].first["Hamming similarity"].low > 0
    assert holds >= 0.85 * draws
    assert above <= 0.10 * draws
    assert first <= 0.15 * draws


def test_negative_control_that_public_knowledge_can_guess() -> None:
    """Where the values can be guessed, a target of noise makes the attack worse than the baseline, never better."""
    rng = np.random.default_rng(9)
    truths = fields(40, 2, rng)
    public = Fake("public", logits=knows(truths, 1, 3.0))
    target = Fake("target", losses=loses({}, 2), task="el")
    found = score(attack(truths, public, target, SETTINGS))
    assert found.one_shot.scores["PR"].baseline.value > 0.1
    assert found.one_shot.improvement.low <= 1.0
    assert set(found.multi_shot) == set(METRICS)
