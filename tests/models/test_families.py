"""Families are light objects, and checkpoints are described and opened by what their family offers."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace

import pytest

from pfl_audit.errors import AuditError, NotAuditableError
from pfl_audit.models import open as opening
from pfl_audit.models.describe import describe_checkpoint
from pfl_audit.models.family import AnswerFamily, FormFamily, GradientFamily, Settings
from pfl_audit.models.open import families, open_any, open_form_model, open_gradient_model, open_model
from pfl_audit.models.protocol import Capability
from pfl_audit.models.weights import read_config, tensor_names

FIXTURES = Path(__file__).parents[2] / "fixtures"
CHECKPOINTS = ("vt5-finetuned", "donut", "layoutlm-private", "layoutlm-public")
HEAVY = ("torch", "transformers", "tokenizers", "sentencepiece", "pandas", "cv2")


class Stranger:
    """A family of another package that offers nothing yet."""

    name = "stranger"

    def recognises(self, config: Settings, tensors: frozenset[str]) -> bool:
        return True

    def capabilities(self, config: Settings, tensors: frozenset[str]) -> frozenset[Capability]:
        return frozenset()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_checkpoint_is_described_without_torch(name: str) -> None:
    program = (
        "import sys; from pathlib import Path; from pfl_audit.models.describe import describe_checkpoint; "
        f"describe_checkpoint(Path({str(FIXTURES / name)!r})); "
        f"assert not {{*{HEAVY}}} & {{*sys.modules}}"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_the_description_is_that_of_the_opened_model(name: str) -> None:
    facts, model = describe_checkpoint(FIXTURES / name), open_any(str(FIXTURES / name))
    assert facts.parameters == model.describe()["parameters"]
    assert model.capabilities <= facts.capabilities
    assert facts.path == FIXTURES / name


def test_every_family_offers_what_its_capabilities_promise() -> None:
    assert [family.name for family in families()] == [
        "token-tagger",
        "donut",
        "form-encoder",
        "layoutlm",
        "layoutlmv3",
        "vt5",
        "transformers",
    ]
    for name in CHECKPOINTS:
        config, tensors = read_config(FIXTURES / name), tensor_names(FIXTURES / name)
        (family,) = [one for one in families() if one.recognises(config, tensors)]
        able = family.capabilities(config, tensors)
        for capability, protocol in (
            (Capability.ANSWER, AnswerFamily),
            (Capability.GRADIENT, GradientFamily),
            (Capability.FORM_LOSS, FormFamily),
        ):
            assert (capability in able) == isinstance(family, protocol)


def test_a_form_encoder_without_a_task_can_be_asked_for_nothing() -> None:
    family = next(one for one in families() if one.name == "form-encoder")
    config = read_config(FIXTURES / "layoutlm-public")
    assert Capability.TOKENS in family.capabilities(config, frozenset())
    for section in ({"task": "chess"}, {"task": ["mlm"]}, 3):
        assert not family.capabilities({**config, "pfl_audit": section, "architectures": None}, frozenset())


@pytest.mark.parametrize("opened", [open_model, open_gradient_model, open_form_model, open_any])
def test_a_strangers_family_that_lacks_a_capability(opened: object, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = SimpleNamespace(name="stranger", load=Stranger, dist=None)
    points = [*(point for point in entry_points(group="pfl_audit.models") if point.name == "donut"), stranger]
    monkeypatch.setattr("pfl_audit.registry.entries", lambda group: points)
    assert [family.name for family in opening.families()] == ["donut", "stranger"]
    with pytest.raises(NotAuditableError, match="is a stranger checkpoint, and that family offers no") as caught:
        opened(str(FIXTURES / "vt5-finetuned"))  # type: ignore[operator]
    wanted = "Install a family that does" if opened is open_form_model else "a family that does: donut"
    assert wanted in str(caught.value)


def test_what_no_family_recognises(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "resnet"}')
    (tmp_path / "model.safetensors").write_bytes((FIXTURES / "donut" / "model.safetensors").read_bytes())
    with pytest.raises(
        AuditError, match=r"'resnet', .* Record its answers .* Known families: token-tagger, donut, form-encoder, "
    ):
        describe_checkpoint(tmp_path)
