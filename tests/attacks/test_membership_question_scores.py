"""Scores of questions that need a regression or losses of tokens: against slow oracles, and within an audit."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.attacks.membership.attack import ATTACK
from pfl_audit.attacks.membership.features import aggregate, query_features
from pfl_audit.attacks.membership.question_scores import (
    PENALTY,
    hard_token_scores,
    log_odds,
    residual_scores,
    window_scores,
)
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.protocol import Response
from pfl_audit.progress import Silent
from tests.core.fakes import FakeModel

Page = Callable[..., Document]


def drawn(seed: int, companies: int = 4) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Log-odds, covariates of which one is constant, and the company of each of forty questions."""
    rng = np.random.default_rng(seed)
    covariates = np.column_stack([rng.normal(size=(40, 2)), np.ones(40)])
    odds = covariates @ [2.0, -1.0, 0.0] + rng.normal(size=40)
    return odds, covariates, [f"c{number % companies}" for number in range(40)]


def expected(odds: np.ndarray, covariates: np.ndarray, fit: np.ndarray, asked: int) -> float:
    """Ridge regression by its normal equations."""
    centre, spread = covariates[fit].mean(axis=0), covariates[fit].std(axis=0)
    scaled = (covariates - centre) / np.where(spread > 0, spread, 1.0)
    inside = scaled[fit]
    slopes = np.linalg.solve(inside.T @ inside + PENALTY * np.eye(3), inside.T @ (odds[fit] - odds[fit].mean()))
    return float(odds[fit].mean() + scaled[asked] @ slopes)


@pytest.mark.parametrize("seed", range(3))
def test_residual_is_what_a_fit_on_other_companies_leaves(seed: int) -> None:
    odds, covariates, companies = drawn(seed)
    odds[3] = covariates[7, 0] = np.nan
    known = np.isfinite(odds) & np.isfinite(covariates).all(axis=1)
    names = np.array(companies)
    slow = [
        odds[at] - expected(odds, covariates, known & (names != names[at]), at) if known[at] else np.nan
        for at in range(40)
    ]
    assert residual_scores(odds, covariates, companies) == pytest.approx(np.array(slow), nan_ok=True)


def test_residual_does_not_depend_on_the_order_of_questions() -> None:
    odds, covariates, companies = drawn(0, companies=17)
    order = np.random.default_rng(1).permutation(40)
    shuffled = residual_scores(odds[order], covariates[order], [companies[at] for at in order])
    assert shuffled == pytest.approx(residual_scores(odds, covariates, companies)[order])


def test_residual_of_one_company_is_missing() -> None:
    odds, covariates, _ = drawn(0)
    assert np.isnan(residual_scores(odds, covariates, ["one"] * 40)).all()


def tokens(seed: int) -> tuple[list[tuple[float, ...] | None], list[tuple[float, ...] | None]]:
    """Losses of the tokens of thirty answers under two models; some have none."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 15, 30)
    found = [[tuple(rng.gamma(1.0, 1.0, length).tolist()) for length in lengths] for _ in range(2)]
    return [None, *found[0][1:]], [*found[1][:-1], ()]


@pytest.mark.parametrize("seed", range(3))
def test_windows_are_counted_one_by_one(seed: int) -> None:
    def slow(own: tuple[float, ...] | None, other: tuple[float, ...] | None) -> float:
        if not own or not other:
            return float("nan")
        shares = []
        for size in (1, 2, 4, 8):
            width = min(size, len(own))
            starts = range(len(own) - width + 1)
            shares.append(np.mean([sum(own[at : at + width]) < sum(other[at : at + width]) for at in starts]))
        return float(np.mean(shares))

    target, reference = tokens(seed)
    found = window_scores(target, reference)
    assert found == pytest.approx(np.array(list(map(slow, target, reference))), nan_ok=True)
    assert np.isnan(found[[0, -1]]).all()


@pytest.mark.parametrize("seed", range(3))
def test_hard_tokens_are_the_least_probable_third(seed: int) -> None:
    def slow(own: tuple[float, ...] | None, other: tuple[float, ...] | None) -> float:
        if not own or not other:
            return float("nan")
        hard = sorted(range(len(own)), key=lambda at: np.exp(-own[at]))[: max(1, round(len(own) / 3))]
        return float(np.mean([np.exp(-own[at]) - np.exp(-other[at]) for at in hard]))

    target, reference = tokens(seed)
    slowly = np.array(list(map(slow, target, reference)))
    assert hard_token_scores(target, reference) == pytest.approx(slowly, nan_ok=True)


def test_other_numbers_of_tokens_are_another_tokenizer() -> None:
    target, reference = tokens(0)
    reference[5] = (*(reference[5] or ()), 1.0)
    assert np.isnan(window_scores(target, reference)).all()
    assert np.isnan(hard_token_scores(target, reference)).all()


def test_columns_of_a_table(page: Page) -> None:
    queries = [
        Query(f"{name}{number}", page(name=f"{name}_{number}", provider=name), "?", ("x",), key)
        for name in "abc"
        for number, key in enumerate(("total_amount", "provider_name"))
    ]
    rng = np.random.default_rng(0)
    target, before = (
        {one.id: Response("x", 0.5, float(rng.gamma(1.0)), 2, (0.5, 1.0)) for one in queries} for _ in "tb"
    )
    table = aggregate(query_features(queries, target, before))
    assert {"residual", "windows", "hard_tokens"} <= set(table.columns)
    assert table["windows"].tolist() == [0.0] * 3
    odds, public = (log_odds(np.array([found[one.id].loss for one in queries])) for found in (target, before))
    keys = np.array([[0.0, 1.0], [1.0, 0.0]] * 3)
    lengths = np.array([[np.log(2), len(one.document.words)] for one in queries])
    covariates = np.column_stack([keys, lengths, public, np.abs(public)])
    slow = residual_scores(odds, covariates, [one.document.unit for one in queries]).reshape(3, 2).mean(axis=1)
    assert table["residual"].tolist() == pytest.approx(slow.tolist())
    bare = {name: replace(response, token_losses=None) for name, response in target.items()}
    assert not {"windows", "hard_tokens"} & set(aggregate(query_features(queries, bare, before)).columns)


def audited(page: Page, folder: Path, checks: Sequence[str], **extra: Sequence[float] | None) -> list[Check]:
    """An audit of fakes; members' losses are smaller.

    Args:
        extra: Model to what is added to its losses of tokens: none where None.
    """
    documents = [
        page(f"word{number}", name=f"p{number}_{at}", provider=f"p{number}") for number in range(60) for at in (1, 2)
    ]
    queries = tuple(Query(f"{one.id}/q", one, "?", ("x",)) for one in documents)
    labels = {f"p{number}": Membership.MEMBER if number < 30 else Membership.NON_MEMBER for number in range(60)}

    def model(name: str, gain: float = 0.0) -> FakeModel:
        rng = np.random.default_rng(len(name))
        losses = {one.id: rng.gamma(2.0, 1.0, 4) for one in queries}

        def answer(query: Query) -> Response:
            each = losses[query.id] * (1 - gain * (labels[query.document.provider] is Membership.MEMBER))
            more = extra.get(name, ())
            return Response("y", 0.5, float(each.mean()), 4, None if more is None else (*each.tolist(), *more))

        return FakeModel(answer, name=name)

    with ResponseStore(folder / "store.sqlite") as store:
        target, before, control = (
            QueryEngine(model(*given), store, Silent()) for given in (("target", 0.7), ("public",), ("outside",))
        )
        context = QuestionContext(
            checks=frozenset(checks), seed=0, budget=Budget.shared(1), redactor=Redactor("salt"),
            evidence=EvidenceBox(folder), progress=Silent(), target=target, pretrained=before,
            red=Corpus(queries, labels), blue=None, control=control,
        )  # fmt: skip
        return ATTACK.run(context, ATTACK.Settings(s=(0,), seeds=1))


TOKEN_ROWS = ("membership.windows", "membership.hard-tokens")


def areas(check: Check) -> dict[object, float | None]:
    return {metric.slice["model"]: metric.value for metric in check.metrics if metric.name == "AUC"}


def test_an_audit_with_losses_of_tokens(page: Page, tmp_path: Path) -> None:
    for check in audited(page, tmp_path, (*TOKEN_ROWS, "membership.loss-residual")):
        found = areas(check)
        assert found["target"] > 0.8 > 0.7 > found["control"]  # type: ignore[operator]
        assert "without the control" not in check.settings


def test_a_control_with_another_tokenizer_has_no_number_and_a_line_says_so(page: Page, tmp_path: Path) -> None:
    for check in audited(page, tmp_path, TOKEN_ROWS, outside=(1.0,)):
        assert areas(check).keys() == {"target"}
        assert "cuts answers into other tokens" in json.dumps(check.settings["without the control"])


@pytest.mark.parametrize("extra", [{"target": None}, {"public": None}, {"public": (1.0,)}])
def test_without_comparable_tokens_the_rows_are_skipped(
    page: Page, tmp_path: Path, extra: dict[str, Sequence[float] | None]
) -> None:
    checks = {check.id: check for check in audited(page, tmp_path, (*TOKEN_ROWS, "membership.azk"), **extra)}
    assert checks["membership.azk"].status == "ran"
    for name in TOKEN_ROWS:
        assert checks[name].status == "skipped"
        assert "no losses of tokens" in (checks[name].reason or "")


def test_rows_of_tokens_alone_without_tokens_cannot_be_audited(page: Page, tmp_path: Path) -> None:
    with pytest.raises(NotAuditableError, match="none of the attacks has what it needs"):
        audited(page, tmp_path, TOKEN_ROWS, target=None)
