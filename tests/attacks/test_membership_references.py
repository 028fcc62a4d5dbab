"""Attacks with several reference models: against slow oracles, on a leak, on noise, and within an audit."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy.special import logit
from scipy.stats import norm

from pfl_audit.attacks.membership import question_scores
from pfl_audit.attacks.membership.attack import MembershipAttack
from pfl_audit.attacks.membership.features import aggregate, query_features
from pfl_audit.attacks.membership.question_scores import lira_scores, log_odds, rmia_scores
from pfl_audit.attacks.membership.rows import ACCESS, ROWS
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


def drawn(seed: int, questions: int = 60) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Losses under a model and its references, and the company of each question."""
    rng = np.random.default_rng(seed)
    loss, references = rng.gamma(0.3, 1.0, questions), rng.gamma(0.3, 1.0, (questions, MODELS))
    return loss, references, [f"c{number}" for number in rng.integers(0, 9, questions)]


@pytest.mark.parametrize("loss", [1e-5, 1e-3, 0.1, 0.7, 5.0, 40.0])
def test_log_odds_are_those_of_the_geometric_mean(loss: float) -> None:
    assert log_odds(np.array([loss]))[0] == pytest.approx(logit(np.exp(-loss)), rel=1e-6)


def test_log_odds_are_finite_and_rise_with_the_probability() -> None:
    found = log_odds(np.array([np.inf, 1e9, 50.0, 20.0, 1.0, 1e-3, 1e-6, 0.0]))
    assert np.isfinite(found).all()
    assert (np.diff(found) >= 0).all()
    assert found[0] == found[2] == pytest.approx(-50.0)
    assert found[-1] == pytest.approx(-np.log(1e-6), abs=1e-5)
    assert np.isnan(log_odds(np.array([np.nan])))[0]


@pytest.mark.parametrize("seed", range(3))
def test_lira_orders_questions_as_the_normal_of_the_references_does(seed: int) -> None:
    """Question by question, with the spread pooled as the mean of the variances."""
    loss, references, _ = drawn(seed)
    odds, others = log_odds(loss), log_odds(references)
    spread = np.sqrt(np.mean([np.var(list(row), ddof=1) for row in others]))
    slow = [norm.cdf(one, loc=np.mean(row), scale=spread) for one, row in zip(odds, others, strict=True)]
    assert norm.cdf(lira_scores(odds, others)) == pytest.approx(np.array(slow), abs=1e-12)


@pytest.mark.parametrize("a", [0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_rmia_is_the_share_of_the_questions_of_other_companies(
    seed: int, a: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The paper's test for each pair of a question and one of the population."""
    monkeypatch.setattr(question_scores, "OFFSET", a)
    loss, references, companies = drawn(seed)
    loss[1], references[1], references[2, 0] = loss[0], references[0], np.nan

    def ratio(number: int) -> float:
        out = float(np.mean([np.exp(-other) for other in references[number]]))
        return float(np.exp(-loss[number])) / (0.5 * ((1 + a) * out + 1 - a))

    def share(number: int) -> float:
        if number == 2:
            return float("nan")
        others = [one for one in range(len(loss)) if one != 2 and companies[one] != companies[number]]
        return float(np.mean([ratio(number) / ratio(other) >= 1 for other in others]))

    found = rmia_scores(loss, references, companies)
    assert found == pytest.approx([share(number) for number in range(len(loss))], nan_ok=True)


def test_rmia_without_another_company_is_missing() -> None:
    assert np.isnan(rmia_scores(np.ones(3), np.ones((3, 2)), ["one"] * 3)).all()


def test_references_that_are_all_alike_or_alone_divide_nothing() -> None:
    assert lira_scores(np.array([1.0, 3.0]), np.ones((2, 2))).tolist() == [0.0, 2.0]
    assert lira_scores(np.array([1.0, 3.0]), np.ones((2, 1))).tolist() == [0.0, 2.0]


def test_scores_of_questions_are_averaged_by_company(page: Callable[..., Document]) -> None:
    queries = [Query(name, page(name=f"{name[0]}_1", provider=name[0]), "?", ("x",)) for name in ("a1", "a2", "b1")]
    losses = {"a1": 1.0, "a2": 3.0, "b1": 0.5}
    target = {name: Response("x", 0.9, loss, 2) for name, loss in losses.items()}
    first = {query.id: Response("y", 0.5, 2.0, 3) for query in queries}
    second = {query.id: Response("y", 0.5, 3.0, 4) for query in queries}
    table = aggregate(query_features(queries, target, None, [first, second], out=second))
    odds = {name: logit(np.exp(-loss)) for name, loss in losses.items()}
    low, high = logit(np.exp(-3)), logit(np.exp(-2))
    spread = np.sqrt((high - low) ** 2 / 2)
    mean = (odds["a1"] + odds["a2"]) / 2
    assert table["lira"].tolist() == pytest.approx([(one - (low + high) / 2) / spread for one in (mean, odds["b1"])])
    assert table["log_odds_ratio_out"].tolist() == pytest.approx([mean - low, odds["b1"] - low])
    assert table["rmia"].tolist() == pytest.approx([0.0, 1.0])
    # A question that a reference did not answer has no score beside the references; all else counts.
    del first["a1"]
    table = aggregate(query_features(queries, target, None, [first, second], out=second))
    assert table.loc["a", ["queries", "loss"]].tolist() == [2, 2.0]
    assert table.loc["a", "log_odds_ratio_out"] == pytest.approx(mean - low)
    assert table.loc["a", "lira"] == pytest.approx((odds["a2"] - (low + high) / 2) / spread)


def test_the_mean_of_scores_does_not_follow_from_the_mean_loss() -> None:
    """Two companies of equal mean losses, one of which has a question that it knows by heart."""
    references = np.tile([1.0, 1.1], (4, 1))
    known = lira_scores(log_odds(np.array([1e-4, 2.0, 1.0, 1.0001])), log_odds(references)).reshape(2, 2).mean(axis=1)
    assert known[0] > known[1] + 1


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


def test_one_row_of_each_access_decides() -> None:
    for control in ("control", "pre-trained", None):
        deciding = {row.access: row.id for row in ROWS if control in row.decides}
        of_scores = "likelihood-ratio-g4" if control == "pre-trained" else "loss-residual-g4"
        assert deciding == {"ZK": "answers-g4", "PK": of_scores, "RK": "likelihood-ratio-out-g4"}
        assert sum(control in row.decides for row in ROWS) == len(deciding)
        assert set(deciding) <= set(ACCESS)


def test_rows_say_which_models_their_scores_subtract() -> None:
    found = {row.id: row.reference for row in ROWS if row.reference is not None}
    before, out = "likelihood-ratio", "likelihood-ratio-out"
    subtracted = (before, f"{before}-g4", "windows", "hard-tokens")
    assert found == {
        **dict.fromkeys(subtracted, "pre-trained"),
        **dict.fromkeys((out, f"{out}-g4"), "control"),
        **dict.fromkeys(("lira", "rmia"), "references"),
    }


def test_ratios_to_the_control_need_one() -> None:
    needs = {row.id: row.needs for row in ROWS}
    assert needs["likelihood-ratio-out"] == {Capability.ANSWER, Capability.LOSS, inputs.CONTROL}
    assert needs["likelihood-ratio-out-g4"] == needs["likelihood-ratio-out"] | {Capability.LIVE}
    assert inputs.CONTROL not in needs["likelihood-ratio-g4"]


def audited(
    page: Callable[..., Document], folder: Path, leak: float, checks: Sequence[str], references: int = 2
) -> tuple[list[Check], int]:
    """An audit of fakes: thirty providers of each class with eight questions, a control and some references.

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
        target, control, *others = (
            QueryEngine(model(seed, leak * (seed == 0)), store, Silent()) for seed in range(2 + references)
        )
        context = QuestionContext(
            checks=frozenset(checks), seed=0, budget=Budget.shared(1), redactor=Redactor("salt"),
            evidence=EvidenceBox(folder), progress=Silent(), target=target, pretrained=None,
            red=Corpus(queries, labels), blue=None, control=control, references=tuple(others),
        )  # fmt: skip
        found = MembershipAttack().run(context, MembershipSettings(s=(0,), seeds=2))
        return found, sum(engine.asked for engine in others)


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


def test_a_ratio_to_the_control_is_no_number_of_the_control(page: Callable[..., Document], tmp_path: Path) -> None:
    found, _ = audited(page, tmp_path, 0.5, ("membership.likelihood-ratio-out",), references=0)
    areas = {metric.slice["model"]: metric.value for metric in found[0].metrics if metric.name == "AUC"}
    assert areas.keys() == {"target"}
    assert areas["target"] > 0.85  # type: ignore[operator]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lira", "rmia"])
def test_the_control_is_a_reference_beside_a_single_one(
    page: Callable[..., Document], tmp_path: Path, name: str
) -> None:
    areas = []
    for references in (1, 2):
        folder = tmp_path / str(references)
        folder.mkdir()
        found, _ = audited(page, folder, 0.5, (f"membership.{name}",), references)
        areas += [
            metric.value for metric in found[0].metrics if (metric.name, metric.slice["model"]) == ("AUC", "target")
        ]
    assert min(areas) > 0.85
    assert areas[0] != areas[1]
