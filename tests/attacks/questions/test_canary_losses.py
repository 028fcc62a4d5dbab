"""A canary whose value has no loss is no canary that the model knows for certain."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from pfl_audit.attacks.canaries.attack import ATTACK
from pfl_audit.attacks.canaries.run import _losses, measure_documents
from pfl_audit.attacks.questions.context import ReleasedCanaries
from pfl_audit.attacks.questions.engine import Answers
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.document import Document, Query, as_boxes
from pfl_audit.errors import AuditError
from pfl_audit.metrics.arrays import Floats
from pfl_audit.models.protocol import Response
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.progress import Silent
from pfl_audit.training.verify import canary_losses

QUERIES = [Query(f"{at}", Document(f"d{at}_1", "A", (), as_boxes([], 0)), "?", ("x",)) for at in range(3)]


def engine(responses: list[Response | None]) -> Any:
    given = {query.id: response for query, response in zip(QUERIES, responses, strict=True) if response}
    return SimpleNamespace(ask=lambda queries, purpose: Answers(given))


def model(responses: list[Response]) -> Any:
    named = dict(zip([query.id for query in QUERIES], responses, strict=True))
    return SimpleNamespace(
        cost=lambda query: 1, batch_size=lambda cost: 2, respond=lambda asked: [named[query.id] for query in asked]
    )


def test_losses_are_summed_over_tokens() -> None:
    responses = [Response("", loss=float(at), tokens=at + 1) for at in range(3)]
    for found in (_losses(engine([*responses]), QUERIES), canary_losses(model(responses), QUERIES, Silent())):
        np.testing.assert_array_equal(found, [0.0, 2.0, 6.0])


def test_evidence_is_what_the_model_has_over_the_pretrained_one(tmp_path: Path) -> None:
    """Values that the pre-trained model has, too, are no evidence; the losses are opposite to the coins without it."""
    coins = np.arange(40) % 4 == 0
    manifest = Manifest("", 20, "00" * 32, 40, np.packbits(coins).tobytes().hex())
    released = ReleasedCanaries(manifest, None, tmp_path, "")

    def knowing(losses: Floats) -> Any:
        return SimpleNamespace(
            ask=lambda queries, purpose: Answers(
                {query.id: Response("", loss=loss, tokens=1) for query, loss in zip(queries, losses, strict=True)}
            )
        )

    hard = 5.0 + 5.0 * coins
    context = SimpleNamespace(
        canaries=released, target=knowing(hard - 2.0 * coins), pretrained=knowing(hard), progress=Silent(),
        budget=Budget.shared(1),
    )  # fmt: skip
    check = measure_documents(ATTACK.specs[0], cast("Any", context))
    assert check.metrics[1].value == 1.0
    assert check.finding is not None
    assert check.finding.level == "leak"


@pytest.mark.parametrize("loss", [None, math.nan, math.inf])
def test_a_missing_loss_is_refused(loss: float | None) -> None:
    responses = [Response("", loss=1.0, tokens=2), Response("", loss=loss, tokens=2), Response("", loss=3.0, tokens=1)]
    with pytest.raises(AuditError, match="no loss for the value of a canary"):
        _losses(engine([*responses]), QUERIES)
    with pytest.raises(AuditError, match="no loss for the value of a canary"):
        canary_losses(model(responses), QUERIES, Silent())


def test_a_canary_without_an_answer_is_refused() -> None:
    with pytest.raises(AuditError, match="no loss"):
        _losses(engine([Response("", loss=1.0), None, None]), QUERIES)
