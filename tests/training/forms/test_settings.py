import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pfl_audit.errors import UsageError
from pfl_audit.training.forms.epochs import best_epoch
from pfl_audit.training.forms.settings import FormTrainSettings

LOOKS = [
    {"accuracy": 0.2, "validation_loss": 3.0},
    {"accuracy": 0.5, "validation_loss": 1.0},
    {"accuracy": 0.7, "validation_loss": 1.5},
    {"accuracy": 0.7, "validation_loss": 1.4},
    {"accuracy": 0.6, "validation_loss": 2.0},
]
UNIT = st.floats(0, 1)


def test_each_criterion_chooses_its_own_epoch() -> None:
    assert best_epoch(LOOKS, "loss") == 1
    assert best_epoch(LOOKS, "precision") == 3


def test_a_model_that_finds_nothing_is_chosen_by_its_loss() -> None:
    looks = [{"accuracy": 0.0, "validation_loss": loss} for loss in (2.0, 1.0, 1.0, 3.0)]
    assert best_epoch(looks, "precision") == best_epoch(looks, "loss") == 1


@given(st.lists(st.builds(lambda a, b: {"accuracy": a, "validation_loss": b}, UNIT, UNIT), min_size=1))
def test_no_epoch_is_better_than_the_chosen_one(looks: list[dict[str, float]]) -> None:
    assert looks[best_epoch(looks, "loss")]["validation_loss"] == min(look["validation_loss"] for look in looks)
    assert looks[best_epoch(looks, "precision")]["accuracy"] == max(look["accuracy"] for look in looks)


@given(st.lists(st.builds(lambda a, b: {"accuracy": a, "validation_loss": b}, UNIT, UNIT), min_size=2))
def test_later_epochs_only_replace_a_choice_by_being_better(looks: list[dict[str, float]]) -> None:
    for criterion in ("precision", "loss"):
        assert best_epoch(looks, criterion) in (best_epoch(looks[:-1], criterion), len(looks) - 1)


def test_the_rate_warms_up_and_falls_to_its_share() -> None:
    settings = FormTrainSettings(learning_rate=1e-3, warmup=0.1, decay=0.1)
    rates = [settings.rate(step, 100) for step in range(101)]
    assert rates[0] == pytest.approx(1e-4)
    assert max(rates) == rates[10] == pytest.approx(1e-3)
    assert rates[100] == pytest.approx(1e-4)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_without_warm_up_and_decay_the_rate_is_constant() -> None:
    settings = FormTrainSettings(warmup=0.0, decay=1.0)
    assert {settings.rate(step, 7) for step in range(7)} == {settings.learning_rate}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "qa"}, "task must be .* and is qa"),
        ({"backbone": "t5"}, "backbone must be .* and is t5"),
        ({"modality": "trimodal"}, "modality must"),
        ({"part": "validation"}, "part must be .* and is validation"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"clip_norm": math.inf}, "clip_norm must be a finite number"),
        ({"batch_size": 0}, "batch_size"),
        ({"max_tokens": 8}, "max_tokens"),
        ({"keep_every": -1}, "keep_every"),
        ({"learning_rate": math.nan}, "learning_rate"),
        ({"warmup": 2.0}, "warmup"),
    ],
)
def test_settings_that_cannot_be(change: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(FormTrainSettings(), **change).check()  # type: ignore[arg-type]
