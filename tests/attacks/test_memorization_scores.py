import numpy as np
import pandas as pd
import pytest

from pfl_audit.attacks.memorization import present
from pfl_audit.attacks.memorization.measures import ACC, memory
from pfl_audit.attacks.memorization.scores import giveaway_units, mean_over_sources, score_gap
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.units import PROVIDER
from pfl_audit.metrics.intervals import bootstrap_weights


def pages(rng: np.random.Generator, inside: float, outside: float, providers: int = 80) -> pd.DataFrame:
    """One to four pages a provider; each provider's pages hang together."""
    rows = []
    for number in range(2 * providers):
        member = number < providers
        known = rng.random() < (inside if member else outside)
        for page in range(int(rng.integers(1, 5))):
            acc = float(known and rng.random() < 0.9)
            rows.append({"page": f"{number}-{page}", "unit": f"p{number}", "member": member, "acc": acc})
    return pd.DataFrame(rows)


def test_scores_by_hand() -> None:
    frame = pd.DataFrame(
        {
            "page": ["a_1", "a_2", "b_1", "c_1"],
            "unit": ["a", "a", "b", "c"],
            "member": [True, True, True, False],
            "acc": [1.0, 1.0, 0.0, 0.0],
        }
    )
    gap = score_gap(frame, "acc", np.random.default_rng(0))
    assert gap.members
    assert gap.non_members
    assert gap.gap
    assert (gap.members.value, gap.non_members.value, gap.gap.value) == pytest.approx((2 / 3, 0.0, 2 / 3))
    assert gap.pages == (3, 1)
    assert gap.items == ([("a_1", "a"), ("a_2", "a"), ("b_1", "b")], [("c_1", "c")])
    assert giveaway_units(frame)["unit"].tolist() == ["a"]


def test_one_class_alone_has_no_gap() -> None:
    frame = pages(np.random.default_rng(0), 0.5, 0.5)
    alone = score_gap(frame[frame["member"]], "acc", np.random.default_rng(0))
    assert alone.members
    assert alone.non_members is None
    assert alone.gap is None
    members, non_members, gap = present.gap_metrics("ACC", present.ALL_PAGES, "target", alone, PROVIDER)
    assert members.value == pytest.approx(frame[frame["member"]]["acc"].mean())
    assert (non_members.value, non_members.n, gap.value, gap.ci) == (None, 0, None, None)
    found = memory(frame[frame["member"]], Budget.shared(1), np.random.default_rng(0))
    assert (found.level, found.headline) == ("unresolved", None)
    assert present.memory_finding("provider_name", found, {}, None).level == "unresolved"


def test_no_hit_at_all_is_not_certainty() -> None:
    frame = pages(np.random.default_rng(0), 0.0, 1.0, providers=20)
    frame["acc"] = (~frame["member"]).astype(float)
    found = score_gap(frame, "acc", np.random.default_rng(0))
    assert found.members
    assert found.non_members
    exact = 1 - 0.025 ** (1 / 20)  # Clopper and Pearson, 0 of 20
    assert (found.members.value, found.members.low) == (0.0, 0.0)
    assert found.members.high == pytest.approx(exact)
    assert (found.non_members.value, found.non_members.high) == (1.0, 1.0)
    assert found.non_members.low == pytest.approx(1 - exact)
    assert found.gap
    assert found.gap.low <= -1.0 + 0.02
    assert found.gap.high < -0.5


def test_positive_control() -> None:
    found = memory(pages(np.random.default_rng(1), 0.2, 0.0), Budget.shared(10), np.random.default_rng(0))
    assert (found.level, found.headline and found.headline.name) == ("leak", ACC)


def test_few_pages_are_never_a_leak() -> None:
    frame = pages(np.random.default_rng(2), 1.0, 0.0, providers=5)
    assert memory(frame, Budget.shared(1), np.random.default_rng(0)).level == "unresolved"


def test_giveaways_need_two_pages() -> None:
    frame = pd.DataFrame({"unit": ["a", "b", "b"], "member": [True, False, False], "acc": [1.0, 1.0, 1.0]})
    found = giveaway_units(frame)
    assert found["unit"].tolist() == ["b"]


def test_the_mean_over_sources_counts_each_source_once() -> None:
    rows = [("a", "x", 1.0), ("a", "x", 1.0), ("b", "x", 0.0), ("b", "y", 0.5), ("c", "y", 0.0)]
    table = pd.DataFrame(rows, columns=["unit", "source", "acc"])
    mean, each = mean_over_sources(table, "acc", table["source"], np.random.default_rng(0))
    assert {source: found.value for source, found in each.items()} == {"x": pytest.approx(2 / 3), "y": 0.25}
    assert mean.value == pytest.approx((2 / 3 + 0.25) / 2)
    drawn = bootstrap_weights(np.zeros(3, dtype=bool), np.random.default_rng(0))
    of = np.array([["a", "b", "c"].index(provider) for provider, _, _ in rows])
    samples = []
    for weights in drawn:
        held = {source: (table["source"] == source).to_numpy() for source in ("x", "y")}
        parts = [np.average(table["acc"][own], weights=weights[of[own]]) if weights[of[own]].sum() else np.nan
                 for own in held.values()]  # fmt: skip
        samples.append(np.mean(parts))
    low, high = np.nanquantile(samples, [0.025, 0.975])
    assert (mean.low, mean.high) == (pytest.approx(low), pytest.approx(high))
