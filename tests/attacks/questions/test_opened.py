"""Models that are compared are different ones."""

import pytest

from pfl_audit.attacks.questions.opened import _require_different
from pfl_audit.errors import UsageError
from tests.core.fakes import FakeModel


def test_a_model_is_not_compared_with_itself() -> None:
    target, base, out, one, other = (FakeModel(name=name) for name in ("target", "base", "out", "one", "other"))
    _require_different(target, base, out, [one, other])
    _require_different(target, base, base, [])
    for models, said in (
        ((target, target, None, []), "--pretrained is the model under audit"),
        ((target, base, target, []), "--control is the model under audit"),
        ((target, base, None, [one, target]), "the same"),
        ((target, base, None, [one, one]), "the same"),
        ((target, base, one, [one, other]), "the same"),
    ):
        with pytest.raises(UsageError, match=said):
            _require_different(*models)
