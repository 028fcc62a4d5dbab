"""Answers on packed tokens are those of transformers' own T5 and ``generate`` on a padded batch."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.vt5 import model as vt5
from pfl_audit.models.vt5.model import Vt5Model

FIXTURES = Path(__file__).parents[3] / "fixtures"


@pytest.fixture(params=["embedded", "random weights"])
def asked(
    request: pytest.FixtureRequest, make_checkpoint: Callable[[int], Path], corpus_folder: Path
) -> tuple[Vt5Model, list[Query]]:
    """A model, and questions about pages of unlike length; random weights go on to the longest answer."""
    if request.param == "embedded":
        return Vt5Model(FIXTURES / "vt5-finetuned"), list(open_corpus(FIXTURES / "red", "red").queries[:60:5])
    return Vt5Model(make_checkpoint(0)), list(open_corpus(corpus_folder, "blue").queries[:20:4])


@pytest.mark.sampled(1)
def test_responses_are_those_of_a_padded_batch(
    asked: tuple[Vt5Model, list[Query]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, queries = asked
    assert len({model.cost(query) for query in queries}) > 1
    packed = model.respond(queries)
    alone = [model.respond([query])[0] for query in queries]
    monkeypatch.setattr(vt5, "can_encode", lambda network: False)
    for padded, *ours in zip(model.respond(queries), packed, alone, strict=True):
        for one in ours:
            assert one.answer == padded.answer
            assert (one.confidence, one.loss) == pytest.approx((padded.confidence, padded.loss), rel=1e-4)


def test_encoder_states_are_those_of_a_padded_batch(
    asked: tuple[Vt5Model, list[Query]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, queries = asked
    with torch.inference_mode():
        packed, mask = model._encode(queries)
        monkeypatch.setattr(vt5, "can_encode", lambda network: False)
        padded, same = model._encode(queries)
    assert torch.equal(mask, same)
    inside = mask.bool()
    torch.testing.assert_close(packed.last_hidden_state[inside], padded.last_hidden_state[inside], rtol=1e-4, atol=1e-4)
