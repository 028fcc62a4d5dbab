"""Two versions of a model, before and after companies joined: the earlier one is given as ``--pretrained``."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.attacks.membership.attack import ATTACK
from pfl_audit.attacks.membership.question_scores import log_odds, residual_scores
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.models.protocol import Response
from pfl_audit.progress import Silent
from tests.core.fakes import FakeModel

QUESTIONS = 6
"""Of a company, on a page each; half of them are answered right."""


def audited(
    page: Callable[..., Document], folder: Path, *, joined: float = 0.0, before: float = 0.0, reads: bool = True
) -> Check:
    """The finding on 50 members and 50 others, by answers, losses and those of the earlier version.

    Args:
        joined: By how many nats a token training since the earlier version makes members' answers likelier.
        before: The same of the training of both versions.
        reads: Whether the earlier version gives right answers.
    """
    labels = {f"p{at:02d}": Membership.MEMBER if at % 2 else Membership.NON_MEMBER for at in range(100)}
    pages = [
        page(f"word{name}of{at}", name=f"{name}_{at}", provider=name) for name in labels for at in range(QUESTIONS)
    ]
    queries = tuple(Query(f"{one.id}/q", one, "?", ("x",)) for one in pages)
    places = {one.id: place for place, one in enumerate(pages)}
    hard = np.random.default_rng(0).gamma(4.0, 1.0, len(queries))

    def version(seed: int, gain: float, right: str = "x") -> FakeModel:
        noise = np.random.default_rng([1, seed]).gamma(4.0, 0.6, len(queries))

        def answer(query: Query) -> Response:
            place, member = places[query.document.id], labels[query.document.provider] is Membership.MEMBER
            return Response(right if place % 2 else "y", 0.5, float(9 + hard[place] + noise[place] - gain * member), 2)

        return FakeModel(answer, name=f"version {seed}")

    models = (version(0, joined + before), version(1, before, "x" if reads else "z"))
    with ResponseStore(folder / "store.sqlite") as store:
        after, earlier = (QueryEngine(model, store, Silent()) for model in models)
        names = ("provider", "likelihood-ratio-g4", "loss-residual-g4")
        context = QuestionContext(
            checks=frozenset(f"membership.{name}" for name in names), seed=0, budget=Budget.shared(1),
            redactor=Redactor("salt"), evidence=EvidenceBox(folder), progress=Silent(), target=after,
            pretrained=earlier, red=Corpus(queries, labels),
        )  # fmt: skip
        return next(check for check in ATTACK.run(context, ATTACK.Settings(s=(0,), seeds=1)) if check.finding)


def test_companies_that_joined_are_found_by_the_difference_to_the_earlier_version(
    page: Callable[..., Document], tmp_path: Path
) -> None:
    found = audited(page, tmp_path, joined=2.0).finding
    assert found is not None
    assert found.level == "leak"
    assert "Log-odds ratio to the pre-trained model" in found.text
    assert "adjusted for 1 attacks" in found.text
    assert "the model that training began from (--pretrained): it excludes what that model reads" in found.text
    assert "its ANLS is 50 %, the model's 50 %" in found.text


@pytest.mark.sampled(1)
@pytest.mark.parametrize("before", [0.0, 2.0])
def test_companies_of_both_versions_or_of_none_are_no_evidence(
    page: Callable[..., Document], tmp_path: Path, before: float
) -> None:
    found = audited(page, tmp_path, before=before).finding
    assert found is not None
    assert found.level in ("none", "unresolved")


def test_an_earlier_version_that_does_not_read_is_no_control(page: Callable[..., Document], tmp_path: Path) -> None:
    found = audited(page, tmp_path, joined=2.0, reads=False).finding
    assert found is not None
    assert found.level == "unresolved"
    assert "the pre-trained model reads these pages worse than the model: ANLS 0 % against 50 %" in found.text


def test_the_residual_leaves_what_both_versions_know() -> None:
    """Why it does not decide beside an earlier version: with noise between the two, its slope is below one."""
    rng = np.random.default_rng(0)
    companies, member = np.repeat(np.arange(200), 8).astype(str), np.repeat(np.arange(200) % 2 == 1, 8)
    hard = 9 + rng.gamma(4.0, 1.0, len(member)) - 2.0 * member
    after, before = (log_odds(hard + rng.gamma(4.0, 0.6, len(member))) for _ in range(2))
    left = residual_scores(after, np.column_stack([before, np.abs(before)]), companies)
    assert left[member].mean() - left[~member].mean() > 0.3
    assert abs((after - before)[member].mean() - (after - before)[~member].mean()) < 0.2
