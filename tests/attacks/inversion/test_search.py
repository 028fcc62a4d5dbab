from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pfl_audit.attacks.inversion import search as searching
from pfl_audit.attacks.inversion.methods import METHODS, Method
from pfl_audit.attacks.inversion.search import Trace, search
from pfl_audit.errors import AuditError
from pfl_audit.progress import Silent

ADAM = Method("Adam", "layered", "adam", rate=0.02, fall=0.05)
LBFGS = METHODS["lbfgs"]
GOAL = torch.linspace(0.1, 0.9, 24).view(1, 1, 24)
SCALES = torch.logspace(0, 2, 24)
START = torch.full((1, 1, 24), 0.5)


def bowl(pixels: Tensor, step: int) -> Tensor:
    """Nothing at GOAL, and a hundred times steeper on one side than on the other."""
    return (SCALES * (pixels - GOAL).square()).sum()


class KilledError(Exception):
    """The process ends."""


def killed_at(calls: int) -> Callable[[Tensor, int], Tensor]:
    def objective(pixels: Tensor, step: int) -> Tensor:
        if step == calls:
            raise KilledError
        return bowl(pixels, step)

    return objective


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state is kept after every turn."""
    monkeypatch.setattr(searching, "_SAVE_SECONDS", -1.0)


def test_the_lowest_point_is_found() -> None:
    for method, steps in ((ADAM, 400), (replace(ADAM, search="signed-adam"), 400), (LBFGS, 100)):
        found, trace = search(bowl, START, method, steps, Silent(), "bowl")
        assert float((found - GOAL).abs().max()) < 0.01, method
        assert trace.least == min(value for _, value in trace.objective) == pytest.approx(float(bowl(found, 0)))
    assert trace.steps < 100  # nothing was left to be done


def test_the_best_pixels_are_given_and_not_the_last() -> None:
    """Steps that are far too wide, from beside the goal."""
    found, trace = search(bowl, GOAL + 1e-3, replace(ADAM, rate=0.9, fall=1.0), 5, Silent(), "bowl")
    assert torch.equal(found, GOAL + 1e-3)
    assert trace.objective[-1][1] > 1


@pytest.mark.parametrize("name", ["dlg", "lbfgs"])
@pytest.mark.parametrize("steps", [1, 7, 13, 25])
def test_no_more_gradients_than_were_allowed(name: str, steps: int) -> None:
    calls = []

    def rough(pixels: Tensor, step: int) -> Tensor:
        calls.append(step)
        return bowl(pixels, step) + 0.3 * (40 * pixels).sin().sum()

    method = replace(METHODS[name], enough=-1e9)
    _, trace = search(rough, START, method, steps, Silent(), "rough")
    assert trace.steps == len(calls) <= steps
    assert calls == list(range(len(calls)))


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("method", [ADAM, LBFGS], ids=["adam", "l-bfgs"])
def test_a_killed_search_goes_on_as_if_nothing_had_been(method: Method, tmp_path: Path) -> None:
    whole, trace = search(bowl, START, method, 60, Silent(), "bowl")
    state = tmp_path / "deep" / "bowl.state"
    with pytest.raises(KilledError):
        search(killed_at(23), START, method, 60, Silent(), "bowl", state)
    assert state.is_file()
    steps = []

    def watched(pixels: Tensor, step: int) -> Tensor:
        steps.append(step)
        return bowl(pixels, step)

    again, resumed = search(watched, START, method, 60, Silent(), "bowl", state)
    assert steps[0] == {"adam": 23, "l-bfgs": 20}[method.search]
    assert torch.equal(again, whole)
    assert resumed == trace
    assert not state.exists()


@pytest.mark.usefixtures("often")
def test_a_state_that_is_none_is_as_good_as_nothing(tmp_path: Path) -> None:
    whole, _ = search(bowl, START, ADAM, 30, Silent(), "bowl")
    state = tmp_path / "bowl.state"
    with pytest.raises(KilledError):
        search(killed_at(9), START, ADAM, 30, Silent(), "bowl", state)
    kept = state.read_bytes()
    other = torch.load(state, weights_only=True)
    torch.save({**other, "pixels": torch.zeros(1, 1, 3)}, tmp_path / "other")
    torch.save({name: other[name] for name in ("pixels", "optimiser")}, tmp_path / "less")
    for content in (b"", kept[: len(kept) // 2], (tmp_path / "other").read_bytes(), (tmp_path / "less").read_bytes()):
        state.write_bytes(content)
        found, trace = search(bowl, START, ADAM, 30, Silent(), "bowl", state)
        assert torch.equal(found, whole)
        assert trace.steps == 30


def test_no_number_from_the_start() -> None:
    for method in (ADAM, LBFGS):
        with pytest.raises(AuditError, match="no finite number"):
            search(lambda pixels, step: pixels.sum() * torch.nan, START, method, 30, Silent(), "nan")


def test_no_number_later_leaves_the_best_before() -> None:
    def breaking(pixels: Tensor, step: int) -> Tensor:
        return bowl(pixels, step) * (torch.inf if step == 5 else 1)

    for method in (ADAM, LBFGS):
        found, trace = search(breaking, START, method, 60, Silent(), "inf")
        assert float(bowl(found, 0)) < float(bowl(START, 0))
        assert trace.steps < 60


def test_a_plain_ends_the_search() -> None:
    def plain(pixels: Tensor, step: int) -> Tensor:
        return 1 + 0 * pixels.sum()

    _, trace = search(plain, START, ADAM, 500, Silent(), "plain")
    assert 50 <= trace.steps <= 110
    assert not Trace(steps=5, objective=[(5, 1.0)]).stalled(500)
