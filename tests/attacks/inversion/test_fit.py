"""Whether an update is one of the model: the right angles behind a LayerNorm."""

from pathlib import Path

import pytest
import torch

from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.donut_text.recovery import recover_text
from pfl_audit.attacks.inversion.fit import APART, decoder_misfit, encoder_misfit, misfit, misfit_limits
from pfl_audit.attacks.inversion.word_text import solve
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion import updates
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.room import Room, other_weights
from tests.attacks.inversion.template.drawn import form

FIXTURES = Path(__file__).parents[3] / "fixtures"


def test_signals_before_a_layer_norm_stand_at_right_angles() -> None:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(20, 64, generator=generator, dtype=torch.float64, requires_grad=True)
    out = torch.nn.functional.layer_norm(inputs, (64,), eps=0.0)
    (signals,) = torch.autograd.grad((out * torch.randn(20, 64, generator=generator)).sum(), inputs)
    assert misfit(signals, inputs.detach()) < 1e-10
    others = torch.randn(20, 64, generator=generator, dtype=torch.float64)
    assert misfit(signals, others) == pytest.approx(1.0, abs=0.5)


def misfit_of(model: GradientModel, case: Case) -> float | None:
    decoder = model.text_decoder()
    if decoder is None:
        return encoder_misfit(model, case.seen, solve(model, case.seen))
    return decoder_misfit(decoder, case.seen, recover_text(case.seen.gradient, decoder.first_layer()))


@pytest.mark.parametrize("kind", ["layoutlmv3", "donut"])
def test_an_update_of_another_model_is_noticed(kind: str, tmp_path: Path) -> None:
    folder = save_reader(tmp_path, "v3")[0] if kind == "layoutlmv3" else FIXTURES / "donut"
    model = open_gradient_model(str(folder), "cpu")
    room = Room(model, (form(),))
    case = room.case(0)
    own = misfit_of(model, case)
    assert own is not None
    assert own < 0.01
    half = misfit_of(model, room.case(0, gradient=updates.rounded(case.seen.gradient, torch.bfloat16)))
    assert half is not None
    assert half < 0.1
    with other_weights(model):
        strange = share(model, case.truths)
    found = misfit_of(model, room.case(0, gradient=strange))
    assert found is not None
    assert found > APART
    assert "another model" in misfit_limits(found)[0].words
    assert misfit_limits(own) == misfit_limits(None) == ()
    nothing = {name: torch.full_like(part, 1e-3) for name, part in case.seen.gradient.items() if "position" not in name}
    assert kind == "donut" or misfit_of(model, room.case(0, gradient=nothing)) is None
