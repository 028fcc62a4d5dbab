"""Server strategies against the printed equations and the paper's code, computed plainly in float64."""

from math import sqrt

import pytest
import torch

from pfl_audit.training.federated.strategies import STRATEGIES

UPDATES = [0.5, -0.2, 0.3, 0.0]
RATE = 1e-3


def trained(name: str, rate: float = RATE) -> list[float]:
    """One weight after each round, from 1."""
    strategy, memory, weights, seen = STRATEGIES.named(name), dict[str, torch.Tensor](), torch.ones(1), []
    for update in UPDATES:
        weights = strategy.step(weights, torch.tensor([update]), memory, rate)
        seen.append(float(weights))
    return seen


def test_fedavg_adds_the_mean_update() -> None:
    assert trained("fedavg") == pytest.approx([1.5, 1.3, 1.6, 1.6])


def test_fedavgm_is_section_3_2_of_the_pilot() -> None:
    weight, momentum, wanted = 1.0, 0.0, []
    for update in UPDATES:
        momentum = 0.9 * momentum + 0.1 * update
        weight += momentum
        wanted.append(weight)
    assert trained("fedavgm") == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("rate", [RATE, 0.1])
def test_fedadam_has_its_epsilon_inside_the_root_as_printed(rate: float) -> None:
    weight, first, second, wanted = 1.0, 0.0, 0.0, []
    for update in UPDATES:
        first, second = 0.9 * first + 0.1 * update, 0.99 * second + 0.01 * update**2
        weight += rate * first / sqrt(second + 1e-5)
        wanted.append(weight)
    assert trained("fedadam", rate) == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(("name", "corrected"), [("fedadam-reference", False), ("fedadam-corrected", True)])
def test_fedadam_of_the_papers_code(name: str, corrected: bool) -> None:
    """Epsilon outside the root, the second moment starts at its square, and correction replaces the moments."""
    weight, first, second, wanted = 1.0, 0.0, 1e-6, []
    for number, update in enumerate(UPDATES, 1):
        first, second = 0.9 * first + 0.1 * update, 0.99 * second + 0.01 * update**2
        if corrected:
            first, second = first / (1 - 0.9**number), second / (1 - 0.99**number)
        weight += RATE * first / (sqrt(second) + 1e-3)
        wanted.append(weight)
    assert trained(name) == pytest.approx(wanted, rel=1e-6)


def test_the_variants_differ() -> None:
    names = ("fedavg", "fedavgm", "fedadam", "fedadam-reference", "fedadam-corrected")
    assert len({round(trained(name)[-1], 7) for name in names}) == len(names)
