"""The scrubbed-value likelihood ratio as a feature of provider membership: leaks that nothing else shows, and noise."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.attacks.membership.attack import ATTACK
from pfl_audit.attacks.membership.evaluation import columns_used, run_trial, subset
from pfl_audit.attacks.membership.features import LARGEST_LOSS, aggregate, memory_features, query_features
from pfl_audit.attacks.membership.rows import ROWS, AttackRow
from pfl_audit.attacks.membership.specs import MembershipSettings
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.attacks.questions.inputs import PRETRAINED
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.scrubbing.questions import SCRUBBED
from pfl_audit.errors import NotAuditableError
from pfl_audit.models.protocol import Capability, Response
from pfl_audit.progress import Silent
from tests.core.fakes import FakeModel

from .noise_audits import decide
from .simulated import table

BY_ID = {row.id: row for row in ROWS}
WITH = ("apk-g4-ratio", "likelihood-ratio-g4")
"""Attacks that have the feature."""
WITHOUT = {"apk-g4-ratio": "apk-g4", "likelihood-ratio-g4": "likelihood-ratio"}
"""The same attacks as they are published."""
Page = Callable[..., Document]


# Features


def scrubbed(page: Page) -> list[Query]:
    places = [("a1", "A"), ("a2", "A"), ("b1", "B")]
    return [Query(name, page(name=f"{name}_1", provider=provider), "?", ("right",)) for name, provider in places]


def losses(**named: float | None) -> dict[str, Response]:
    return {name: Response("x", 0.5, loss, 4) for name, loss in named.items()}


def provider_table(page: Page, after: dict[str, Response], before: dict[str, Response] | None):  # type: ignore[no-untyped-def]
    queries = scrubbed(page)
    asked = query_features(queries, {query.id: Response("right", 0.9, 0.5, 4) for query in queries}, None)
    return aggregate(asked, memory_features(queries, after, [], {}, before))


def test_ratio_is_the_mean_over_pages_in_nats_a_token(page: Page) -> None:
    found = provider_table(page, losses(a1=1.0, a2=2.0, b1=3.0), losses(a1=4.0, a2=3.0, b1=2.5))
    assert found["llr_mem"].to_dict() == pytest.approx({"A": 2.0, "B": -0.5})
    assert "loglik_mem" not in found


def test_a_model_asked_by_itself_has_the_log_likelihood(page: Page) -> None:
    found = provider_table(page, losses(a1=1.0, a2=2.0, b1=3.0), None)
    assert found["loglik_mem"].to_dict() == pytest.approx({"A": -1.5, "B": -3.0})
    assert "llr_mem" not in found


def test_a_page_without_both_losses_does_not_count(page: Page) -> None:
    nan = float("nan")
    for after, before in (
        (losses(a1=1.0, a2=None, b1=2.0), losses(a1=3.0, a2=9.0, b1=2.0)),
        (losses(a1=1.0, a2=nan, b1=2.0), losses(a1=3.0, a2=9.0, b1=2.0)),
        (losses(a1=1.0, a2=9.0, b1=2.0), losses(a1=3.0, b1=2.0)),
    ):
        assert provider_table(page, after, before)["llr_mem"].to_dict() == pytest.approx({"A": 2.0, "B": 0.0})


def test_an_infinite_loss_counts_as_the_largest(page: Page) -> None:
    inf = float("inf")
    found = provider_table(page, losses(a1=inf, a2=inf, b1=1.0), losses(a1=inf, a2=inf, b1=inf))
    assert found["llr_mem"].to_dict() == pytest.approx({"A": 0.0, "B": LARGEST_LOSS - 1.0})


def test_a_provider_without_a_scrubbed_page_has_the_median(page: Page) -> None:
    queries = [*scrubbed(page), Query("c1", page(name="c1_1", provider="C"), "?", ("right",))]
    asked = query_features(queries, {query.id: Response("right") for query in queries}, None)
    memory = memory_features(queries[:3], losses(a1=1.0, a2=1.0, b1=2.0), [], {}, losses(a1=3.0, a2=3.0, b1=3.0))
    assert aggregate(asked, memory).loc["C", "llr_mem"] == pytest.approx(1.5)


def test_without_losses_under_either_model_there_is_no_such_column(page: Page) -> None:
    silent, heard = losses(a1=None, a2=None, b1=None), losses(a1=1.0, a2=1.0, b1=1.0)
    for after, before in ((silent, heard), (heard, silent), (heard, {})):
        assert not {"llr_mem", "loglik_mem"} & set(provider_table(page, after, before))


# Rows


def test_attacks_of_the_paper_keep_their_columns_and_their_access() -> None:
    g1, g2, g3, g4 = ("acc", "nls"), ("loss", "conf"), ("delta_loss", "delta_conf"), ("nls_mem", "delta_nls_mem")
    published = {
        "azk": g1, "azk-g4": g1 + g4, "apk": g1 + g2 + g3, "apk-g4": g1 + g2 + g3 + g4, "azk-vote": g1,
        "apk-vote": g1 + g2 + g3,
    }  # fmt: skip
    assert {name: BY_ID[name].features for name in published} == published
    assert BY_ID["likelihood-ratio"].features == ("log_odds_ratio",)
    assert {row.id for row in ROWS if "llr_mem" in row.columns} == {*WITH, "loss-residual-g4"}
    assert BY_ID["azk-g4"].needs == {Capability.ANSWER, Capability.LIVE}
    for name in WITH:
        assert BY_ID[name].access == "PK"
        assert BY_ID[name].needs >= {Capability.LOSS, Capability.LIVE, PRETRAINED}


@pytest.mark.parametrize("name", WITH)
def test_without_the_column_an_attack_is_the_published_one(name: str) -> None:
    frame, labels = subset(*table(40, 40, np.random.default_rng(0), leak=0.5), 0)
    bare = frame.drop(columns="llr_mem")
    ours, theirs = (run_trial(BY_ID[each], bare, labels, 0, MembershipSettings()) for each in (name, WITHOUT[name]))
    assert ours.scores.tolist() == theirs.scores.tolist()
    assert ours.calls.tolist() == theirs.calls.tolist()
    assert run_trial(BY_ID[name], frame, labels, 0, MembershipSettings()).scores.tolist() != theirs.scores.tolist()


def test_both_ratios_count_alike_whatever_their_units() -> None:
    frame, labels = subset(*table(40, 40, np.random.default_rng(0), leak=0.5), 0)
    row = BY_ID["likelihood-ratio-g4"]
    found = run_trial(row, frame, labels, 0, MembershipSettings())
    scaled = run_trial(
        row, frame.assign(log_odds_ratio=1e3 * frame["log_odds_ratio"] + 7), labels, 0, MembershipSettings()
    )
    assert scaled.scores == pytest.approx(found.scores)
    chosen = frame.iloc[found.test]
    slow = sum((chosen[each] - chosen[each].mean()) / chosen[each].std(ddof=0) for each in row.features) / 2
    assert found.scores == pytest.approx(slow.to_numpy())


def test_a_control_without_the_public_model_is_attacked_by_its_own_losses() -> None:
    frame, _ = table(20, 20, np.random.default_rng(0))
    control = frame.rename(columns={"llr_mem": "loglik_mem"}).drop(columns=["log_odds_ratio", "log_odds_before"])
    assert columns_used(BY_ID["likelihood-ratio-g4"], control) == ["log_odds", "loglik_mem"]
    assert columns_used(BY_ID["apk-g4-ratio"], control)[-1] == "loglik_mem"
    with pytest.raises(NotAuditableError, match="log_odds_ratio"):
        columns_used(BY_ID["likelihood-ratio-g4"], frame[["acc", "nls"]])


def levels_of(rows: tuple[AttackRow, ...], seed: int, leak: float):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng([31, seed])
    frame, labels = table(80, 80, rng, scrubbed_leak=leak)
    control, _ = table(80, 80, rng)
    control = control.set_axis(frame.index).assign(queries=frame["queries"].to_numpy())
    return decide(frame, control, labels, seed, rows=rows, seeds=1)


@pytest.mark.parametrize("name", WITH)
def test_positive_control_a_leak_on_scrubbed_pages_alone(name: str) -> None:
    """Only the loss of the scrubbed value is lower for members; the published attack sees nothing."""
    assert levels_of((BY_ID[name],), 2, leak=2.5).level == "leak"
    assert levels_of((BY_ID[WITHOUT[name]],), 2, leak=2.5).level in ("none", "unresolved")


def test_negative_control_nothing_was_trained_on() -> None:
    """How often noise is a leak is counted by ``tests.bench.rates``."""
    assert levels_of((BY_ID["likelihood-ratio-g4"],), 2, leak=0.0).level in ("none", "unresolved")


# A whole audit


CHECKS = ("azk", "azk-g4", "likelihood-ratio", "likelihood-ratio-g4")


def corpus() -> Corpus:
    """Forty members and forty others, two pages each with three questions; every page names its company."""
    rng = np.random.default_rng(0)
    queries, membership = [], {}
    for number in range(80):
        provider = "".join(rng.choice(list("abcdefghijklmnop"), size=12)).title()
        membership[provider] = Membership.MEMBER if number % 2 else Membership.NON_MEMBER
        for page in range(2):
            boxes = np.tile([[0.1, 0.1, 0.2, 0.2]], (4, 1))
            words = (provider, *rng.choice(["total", "due", "thanks", "net"], size=3).tolist())
            document = Document(f"{number:03d}{page}_1", provider, words, boxes, None, "red_test")
            queries += [Query(f"{document.id}-{at}", document, "?", (f"{at}",), "total_amount") for at in range(3)]
    return Corpus(tuple(queries), membership, "jsonl")


def audited(folder: Path, *, helped: float = 0.0, losses: bool = True, missing: str | None = None) -> dict[str, Check]:
    """An audit of fakes that answer at random; members' names alone have a loss that is smaller by ``helped``.

    Args:
        folder: Folder of store and evidence.
        helped: In nats a token.
        losses: Whether any model gives some.
        missing: Model that gives none for scrubbed pages.
    """
    red = corpus()

    def model(name: str, number: int, gain: float = 0.0) -> FakeModel:
        rng = np.random.default_rng([5, number])
        said: dict[str, Response] = {}

        def answer(query: Query) -> Response:
            if query.id not in said:
                hidden = SCRUBBED in query.id
                member = red.label(query.document.provider) is Membership.MEMBER
                loss: float | None = float(rng.gamma(4.0, 0.5)) + (3.0 - gain * member if hidden else 0.0)
                text = query.answers[0] if not hidden and rng.random() < 0.5 else "other"
                found = Response(text, 0.5, None if hidden and name == missing else loss, 3)
                said[query.id] = found if losses else replace(found, confidence=None, loss=None, tokens=None)
            return said[query.id]

        return FakeModel(answer, name=name)

    rows = CHECKS if losses else CHECKS[:2]
    with ResponseStore(folder / "store.sqlite") as store:
        target, before = (
            QueryEngine(one, store, Silent()) for one in (model("target", 0, helped), model("pre-trained", 1))
        )
        context = QuestionContext(
            target=target, pretrained=before if losses else None, red=red, blue=None,
            classes_random=None if losses else "units",
            checks=frozenset({"membership.provider", *(f"membership.{name}" for name in rows)}), seed=0,
            budget=Budget.shared(1), redactor=Redactor("salt"), evidence=EvidenceBox(folder), progress=Silent(),
        )  # fmt: skip
        return {check.id: check for check in ATTACK.run(context, ATTACK.Settings(s=(0,), seeds=1))}


def value(check: Check, model: str = "target") -> float:
    name = "AUC" if "ratio" in check.id else "balanced accuracy"
    found = next(metric for metric in check.metrics if (metric.name, metric.slice["model"]) == (name, model))
    assert found.value is not None
    return found.value


def test_an_audit_finds_a_leak_that_is_in_the_loss_of_scrubbed_names_alone(tmp_path: Path) -> None:
    found = audited(tmp_path, helped=3.0)
    ours = found["membership.likelihood-ratio-g4"]
    assert value(ours) > 0.85 > 0.65 > value(ours, "pre-trained")
    assert all(value(found[f"membership.{name}"]) < 0.65 for name in CHECKS[:3])
    assert list(ours.settings["features"]) == ["log_odds_ratio", "llr_mem"]
    whole = found["membership.provider"].finding
    assert whole is not None
    assert whole.level == "leak"
    assert ours.title in whole.text


def test_an_audit_of_noise_finds_nothing(tmp_path: Path) -> None:
    whole = audited(tmp_path)["membership.provider"].finding
    assert whole is not None
    assert whole.level in ("none", "unresolved")


@pytest.mark.parametrize("model", ["target", "pre-trained"])
def test_without_losses_of_scrubbed_pages_it_is_the_likelihood_ratio(tmp_path: Path, model: str) -> None:
    found = audited(tmp_path, helped=1.5, missing=model)
    ours, theirs = found["membership.likelihood-ratio-g4"], found["membership.likelihood-ratio"]
    assert list(ours.settings["features"]) == ["log_odds_ratio"]
    assert ours.settings["features without values"] == ["llr_mem"]
    assert "features without values" not in theirs.settings
    for model in ("target", "pre-trained"):
        assert value(ours, model) == value(theirs, model)


def test_attacks_on_answers_alone_run_without_any_loss(tmp_path: Path) -> None:
    found = audited(tmp_path, losses=False)
    assert list(found["membership.azk-g4"].settings["features"]) == ["acc", "nls", "nls_mem", "delta_nls_mem"]
