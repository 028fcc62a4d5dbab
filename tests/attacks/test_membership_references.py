"""Attacks with several reference models: against slow oracles, on a leak, on noise, and within an audit."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from pfl_audit.attacks.membership.attack import MembershipAttack
from pfl_audit.attacks.membership.features import aggregate, lira_scores, query_features, rmia_scores, with_scores
from pfl_audit.attacks.membership.specs import MembershipSettings
from pfl_audit.attacks.questions import inputs
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.models.protocol import Capability, Response
from pfl_audit.progress import Silent
from tests.core.fakes import FakeModel

from .noise_audits import decide
from .simulated_references import MODELS, REFERENCES, simulated


def drawn(seed: int, providers: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Losses under a model and its references."""
    rng = np.random.default_rng(seed)
    return rng.gamma(2.0, 1.0, providers), rng.gamma(2.0, 1.0, (providers, MODELS))


@pytest.mark.parametrize("seed", range(3))
def test_lira_orders_as_the_normal_of_the_references_does(seed: int) -> None:
    """Provider by provider, with the spread pooled as the mean of the variances."""
    loss, references = drawn(seed)
    loglik, others = -loss, -references
    spread = np.sqrt(np.mean([np.var(list(row), ddof=1) for row in others]))
    slow = [norm.cdf(one, loc=np.mean(row), scale=spread) for one, row in zip(loglik, others, strict=True)]
    assert norm.cdf(lira_scores(loglik, others)) == pytest.approx(np.array(slow), abs=1e-12)


@pytest.mark.parametrize("a", [0.3, 1.0])
@pytest.mark.parametrize("gamma", [1.0, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_rmia_orders_as_the_share_of_a_population_does(seed: int, gamma: float, a: float) -> None:
    """The paper's test for each pair of a provider and one of the population."""
    loss, references = drawn(seed)

    def ratio(number: int) -> float:
        out = float(np.mean([np.exp(-other) for other in references[number]]))
        return float(np.exp(-loss[number])) / (0.5 * ((1 + a) * out + 1 - a))

    population = range(10)
    share = [np.mean([ratio(one) / ratio(other) >= gamma for other in population]) for one in range(len(loss))]
    scores = rmia_scores(loss, references, a)
    assert scores == pytest.approx([ratio(one) for one in range(len(loss))])
    assert (np.diff(np.array(share)[np.argsort(scores)]) >= 0).all()
    assert len(set(share)) > 3


def test_references_that_are_all_alike_divide_nothing() -> None:
    assert lira_scores(np.array([1.0, 3.0]), np.ones((2, 2))).tolist() == [0.0, 2.0]


def test_scores_of_providers_by_hand(page: Callable[..., Document]) -> None:
    queries = [Query(name, page(name=f"{name[0]}_1", provider=name[0]), "?", ("x",)) for name in ("a1", "a2", "b1")]
    target = {"a1": Response("x", 0.9, 1.0, 2), "a2": Response("x", 0.9, 3.0, 2), "b1": Response("x", 0.9, 1.0, 1)}
    first = {query.id: Response("y", 0.5, 2.0, 2) for query in queries}
    second = {query.id: Response("y", 0.5, 3.0, 2) for query in queries}
    table = with_scores(aggregate(query_features(queries, target, None, [first, second])), 2)
    # Log-likelihoods: A -4 beside -4 and -6, B -1 beside the same; the variance of both is 2.
    assert table["lira"].tolist() == pytest.approx([1 / np.sqrt(2), 4 / np.sqrt(2)])
    beside = (np.exp(-2) + np.exp(-3)) / 2
    assert table["rmia"].tolist() == pytest.approx([np.exp(-2) / beside, np.exp(-1) / beside])
    # A question that one of the references did not answer counts for none of the models.
    del second["a1"]
    table = aggregate(query_features(queries, target, None, [first, second]))
    assert table.loc["a", ["queries", "loss"]].tolist() == [1, 3.0]


@pytest.mark.parametrize("row", REFERENCES, ids=lambda row: row.id)
def test_positive_control_a_leak_that_the_loss_alone_hides(row) -> None:  # type: ignore[no-untyped-def]
    """How hard a company's pages are hides the leak until it is taken off."""
    target, control, labels = simulated(0, leak=1.5)
    decision = decide(target, control, labels, 0, rows=(row,), s=(0,))
    assert decision.level == "leak"
    bare = target.assign(lira=-target["loss"], rmia=-target["loss"])
    alone = decide(bare, control, labels, 0, rows=(row,), s=(0,))
    assert decision.strongest.found.value > alone.strongest.found.value + 0.05


@pytest.mark.parametrize("controlled", [True, False])
def test_negative_control_companies_that_differ_in_difficulty_alone(controlled: bool) -> None:
    """How often noise is a leak is counted by ``tests.bench.rates``."""
    target, control, labels = simulated(100)
    decision = decide(target, control if controlled else None, labels, 0, rows=REFERENCES, seeds=1)
    assert decision.level in ("none", "unresolved")


def test_both_need_losses_and_reference_models() -> None:
    assert [row.id for row in REFERENCES] == ["lira", "rmia"]
    for row in REFERENCES:
        assert row.needs == {Capability.ANSWER, Capability.LOSS, inputs.REFERENCES}


def audited(page: Callable[..., Document], folder: Path, leak: float, checks: Sequence[str]) -> tuple[list[Check], int]:
    """An audit of fakes: thirty providers of each class with eight questions, a control and two references.

    Returns:
        The checks, and how many questions went to the references.
    """
    documents = [
        page(f"word{number}of{sheet}", name=f"p{number}_{sheet}", provider=f"p{number}")
        for number in range(60)
        for sheet in range(8)
    ]
    queries = tuple(Query(f"{one.id}/q", one, "?", ("x",)) for one in documents)
    members = {f"p{number}" for number in range(30)}
    labels = {name: Membership.MEMBER if name in members else Membership.NON_MEMBER for name in
              (f"p{number}" for number in range(60))}  # fmt: skip

    def model(seed: int, gain: float = 0.0) -> FakeModel:
        hard = np.random.default_rng(0).gamma(4.0, 1.0, len(queries))
        noise = np.random.default_rng([1, seed]).gamma(4.0, 0.2, len(queries))
        places = {query.id: number for number, query in enumerate(queries)}

        def answer(query: Query) -> Response:
            place = places[query.id]
            helped = gain if query.document.provider in members else 0.0
            return Response("x" if place % 2 else "y", 0.5, max(0.0, float(hard[place] + noise[place] - helped)), 2)

        return FakeModel(answer, name=f"model {seed}")

    with ResponseStore(folder / "store.sqlite") as store:
        target, control, *references = (
            QueryEngine(model(seed, leak * (seed == 0)), store, Silent()) for seed in range(4)
        )
        context = QuestionContext(
            checks=frozenset(checks), seed=0, budget=Budget.shared(1), redactor=Redactor("salt"),
            evidence=EvidenceBox(folder), progress=Silent(), target=target, pretrained=None,
            red=Corpus(queries, labels), blue=None, control=control, references=tuple(references),
        )  # fmt: skip
        found = MembershipAttack().run(context, MembershipSettings(s=(0,), seeds=2))
        return found, sum(engine.asked for engine in references)


def test_an_audit_shows_both_rows_beside_the_others(page: Callable[..., Document], tmp_path: Path) -> None:
    """The leak is far smaller than what pages differ by, so that the references alone show it."""
    wanted = ("membership.provider", "membership.azk", "membership.lira", "membership.rmia")
    found, asked = audited(page, tmp_path, 0.5, wanted)
    assert asked == 2 * 480
    checks = {check.id: check for check in found}
    assert set(checks) == set(wanted)
    for name in wanted[2:]:
        told = {(metric.name, metric.slice["model"]): metric for metric in checks[name].metrics}
        assert told["AUC", "target"].value > 0.9 > 0.65 > told["AUC", "control"].value  # type: ignore[operator]
        assert ("TPR at 1 % FPR", "target") in told
    whole = checks["membership.provider"]
    assert whole.finding is not None
    assert whole.finding.level == "leak"
    rows = {row[1]: row for row in whole.tables[0].rows}
    note = next(table.note for table in whole.tables if table.title.startswith("Accuracy of all")) or ""
    assert all(f"{setting}: answers" in note for setting in ("ZK", "RK"))  # abbreviations of the table
    assert len(rows) == 3
    assert rows["LiRA with reference models, offline"][0] != rows["AZK"][0]


def test_reference_models_are_not_asked_where_no_row_uses_them(page: Callable[..., Document], tmp_path: Path) -> None:
    assert audited(page, tmp_path, 0.0, ("membership.azk",))[1] == 0
