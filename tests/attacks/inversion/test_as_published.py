"""Gradient inversion as the paper has it: rate, priors, distance and end of the search."""

import pytest
import torch

from pfl_audit.attacks.inversion import priors
from pfl_audit.attacks.inversion.attack import ATTACK
from pfl_audit.attacks.inversion.matching import distance
from pfl_audit.attacks.inversion.methods import METHODS, Method
from pfl_audit.attacks.inversion.reconstruction import adapt
from pfl_audit.attacks.inversion.search import search
from pfl_audit.attacks.inversion.settings import InversionSettings
from pfl_audit.core.settings import with_published
from pfl_audit.progress import Silent

PAPER = InversionSettings.model_validate(with_published(ATTACK.Settings, {}))


def test_the_rate_is_that_of_the_paper_for_its_method_alone() -> None:
    method = adapt(METHODS["gi_dqa"], PAPER)
    assert method.rate == pytest.approx(2 / 255)
    assert method.fall == pytest.approx(0.999**5000)
    for name in ("lbfgs", "dlg", "april", "inverting_gradients"):
        assert adapt(METHODS[name], PAPER) == METHODS[name]
    assert adapt(METHODS["gi_dqa"], InversionSettings()) == METHODS["gi_dqa"]


def test_weights_starts_and_iterations_are_those_of_section_4_1() -> None:
    assert (PAPER.alpha_txt, PAPER.alpha_gau, PAPER.alpha_tv, PAPER.iterations, PAPER.init) == (
        0.1, 0.01, 0.1, 5000, "noise",
    )  # fmt: skip


def test_variations_are_sums_as_printed() -> None:
    """Equations 9 and 10, by a loop over pixels."""
    page = torch.rand((1, 3, 4, 5), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    everywhere = torch.ones((4, 5), dtype=torch.bool)
    spatial = channels = 0.0
    for row in range(4):
        for column in range(5):
            red, green, blue = (float(page[0, channel, row, column]) for channel in range(3))
            channels += abs(red - green) + abs(green - red) + abs(blue - red)
            for channel in range(3):
                here = float(page[0, channel, row, column])
                spatial += abs(float(page[0, channel, row + 1, column]) - here) if row < 3 else 0.0
                spatial += abs(float(page[0, channel, row, column + 1]) - here) if column < 4 else 0.0
    assert float(priors.spatial_sum(page, everywhere)) == pytest.approx(spatial)
    assert float(priors.channel_sum(page, everywhere)) == pytest.approx(channels)
    assert float(priors.channel_sum(page, torch.zeros((4, 5), dtype=torch.bool))) == 0


def test_a_gradient_of_another_size_is_apart_unless_it_is_brought_to_that_of_the_shared_one() -> None:
    target = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])]
    twice = [2 * part for part in target]
    assert float(distance("layered", target)(twice)) == pytest.approx(0, abs=1e-6)
    assert float(distance("layered", target, scaled=False)(twice)) == pytest.approx(
        5 / 2 + 9, rel=1e-5
    )  # as equation 5
    assert float(distance("relative", target, scaled=False)(twice)) == pytest.approx(0, abs=1e-6)  # ours stays as it is


def test_a_search_without_an_early_end_takes_every_iteration() -> None:
    method = Method("Adam", "layered", "adam", rate=0.01, enough=-1.0)

    def flat(pixels: torch.Tensor, step: int) -> torch.Tensor:
        return 1.0 + 0.0 * pixels.sum()

    start = torch.zeros((1, 1, 3))
    steps = {end: search(flat, start, method, 200, Silent(), "flat", early_end=end)[1].steps for end in (True, False)}
    assert steps[False] == 200
    assert steps[True] < 50
