from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from pfl_audit.core.attack import CheckSpec
from pfl_audit.core.audit_verdict import decide, exit_code
from pfl_audit.core.gate_policy import Earlier, GatePolicy, checks_of, read_policy
from pfl_audit.core.gates import Limit, parse_limit, slug
from pfl_audit.core.results import Check, Data, Finding, Level, Metric, Provenance, Results, Target
from pfl_audit.core.schema import FailOn
from pfl_audit.core.waivers import Waiver, read_waivers
from pfl_audit.errors import UsageError
from pfl_audit.privacy.guarantee import GuaranteeReview, GuaranteeSampling, PrivacyGuarantee

TODAY = date(2026, 12, 1)
SPECS = {
    name: CheckSpec(name, name, optional=name == "membership.rmia")
    for name in ("membership.provider", "membership.azk", "membership.rmia", "memorization.provider_name")
}


def metric(name: str, value: float | None, ci: tuple[float, float] | None, **more: Any) -> Metric:
    return Metric(name=name, value=value, ci=ci, **{"format": "percent", "slice": {"model": "target"}, **more})


def membership(tpr: float | None, high: float = 0.0, *, ci: bool = True) -> Check:
    metrics = [
        metric("TPR at 1 % FPR", tpr, (0.0, high) if ci and tpr is not None else None),
        metric("TPR at 1 % FPR", 0.9, (0.8, 1.0), slice={"model": "documents alone"}),
    ]
    return Check(id="membership.azk", family="membership", title="", status="ran", metrics=metrics)


def name(gap: float, high: float, level: Level = "none") -> Check:
    where = {"model": "target", "pages": "all pages"}
    metrics = [
        metric("ACC gap", gap, (gap - 0.1, high), format="points", slice=where),
        metric("ACC gap", 0.5, (0.1, 0.9), format="points", slice={**where, "pages": "confidence ≥ 0.9"}),
        metric("ANLS gap", 0.4, (0.3, 0.5), format="points", slice=where),
    ]
    finding = Finding(level=level, text="", remedy="", metric="ACC gap", slice=where)
    return Check(
        id="memorization.provider_name", family="memorization", title="", status="ran", metrics=metrics, finding=finding
    )


def slices(first: float, second: float) -> Check:
    """Two slices of one number with these upper ends."""
    ends = enumerate((first, second))
    metrics = [metric("TPR at 1 % FPR", 0.0, (0.0, high), slice={"model": "target", "s": at}) for at, high in ends]
    return membership(None).model_copy(update={"metrics": metrics})


def two_gaps() -> Check:
    metrics = [metric(name, high, (0.0, high), format="points") for name, high in (("ACC gap", 0.5), ("ANLS gap", 0.4))]
    return membership(None).model_copy(update={"metrics": metrics})


def skipped(name: str) -> Check:
    return Check(id=name, family=name.split(".")[0], title="", status="skipped", reason="needs loss")


def guarantee(epsilon: float | None, worth: str = "holds") -> GuaranteeReview:
    claim = PrivacyGuarantee(
        epsilon=4.0, delta=1e-3, unit="provider", adjacency="add/remove one provider", accountant="pld",
        accounting="valid", noise_multiplier=1.0, clip=1.0, rounds=3, rounds_accounted=3, denominator=1.0,
        noise_generator="cryptographic", sampling=GuaranteeSampling(
            kind="poisson", scheme="providers", client_rate=1.0, provider_rate=0.1),
    )  # fmt: skip
    return GuaranteeReview(claim=claim, worth=worth, text="", epsilon=epsilon)


def results(*checks: Check, sha256: str = "d", review: GuaranteeReview | None = None) -> Results:
    return Results(
        title="",
        verdict=decide(checks, "leak"),
        target=Target(family="", path="m", sha256="m", parameters=1, claim_review=review),
        datasets=[Data(subject="questions", format="", path="", sha256=sha256, documents=1, queries=1)],
        checks=list(checks),
        provenance=Provenance(
            command="", version="", packages={}, seed=0, started="2026-11-01", seconds=1, resumed=False, revealed=False
        ),
    )


TPR, GAP, EPSILON = (
    "membership.* : tpr_at_1_fpr <= 2 %", "memorization.provider_name : gap <= 3 points", "guarantee.epsilon <= 8"
)  # fmt: skip
ACCEPTED = {"reason": "synthetic companies", "name": "A. Engineer"}
VALID, OLD = date(2026, 12, 1), date(2026, 11, 30)


def waiver(check: str, expires: date = VALID, **more: object) -> Waiver:
    return read_waivers([{"check": check, "expires": expires, **ACCEPTED, **more}])[0]


CASES: dict[str, tuple[list[Check], FailOn, dict[str, Any], dict[str, Any], int]] = {
    "tpr below the limit": ([membership(0.0, 0.019)], "leak", {"gates": [TPR]}, {}, 0),
    "tpr whose upper bound is above": ([membership(0.0, 0.05)], "leak", {"gates": [TPR]}, {}, 1),
    "the same on the estimate": ([membership(0.0, 0.05)], "leak", {"gates": [f"{TPR} on estimate"]}, {}, 0),
    "tpr that is not resolved": ([membership(None)], "leak", {"gates": [TPR]}, {}, 3),
    "tpr without an interval": ([membership(0.01, ci=False)], "leak", {"gates": [TPR]}, {}, 3),
    "a check that did not run": ([skipped("membership.azk")], "never", {"gates": [TPR]}, {}, 3),
    "a check that is optional": (
        [membership(0.0, 0.01), skipped("membership.rmia")], "leak", {"gates": [TPR]}, {}, 0
    ),
    "gap of the finding": ([name(0.01, 0.02)], "leak", {"gates": [GAP]}, {}, 0),
    "gap above": ([name(0.01, 0.04)], "leak", {"gates": [GAP]}, {}, 1),
    "gap above, never": ([name(0.01, 0.04)], "never", {"gates": [GAP]}, {}, 1),
    "gap of an unresolved finding": ([name(0.01, 0.02, "unresolved")], "leak", {"gates": [GAP]}, {}, 3),
    "a wrong unit": ([name(0.01, 0.02)], "leak", {"gates": [GAP.replace("points", "%")]}, {}, 3),
    "no such number": ([name(0.01, 0.02)], "leak", {"gates": [GAP.replace("gap", "tpr")]}, {}, 3),
    "epsilon": ([name(0.01, 0.02)], "leak", {"gates": [EPSILON]}, {"guarantee": guarantee(6.0)}, 0),
    "epsilon above": ([name(0.01, 0.02)], "leak", {"gates": [EPSILON]}, {"guarantee": guarantee(9.0)}, 1),
    "no guarantee": ([name(0.01, 0.02)], "leak", {"gates": [EPSILON]}, {}, 3),
    "a guarantee that cannot be checked": (
        [name(0.01, 0.02)], "leak", {"gates": [EPSILON]}, {"guarantee": guarantee(None, "unknown")}, 3
    ),
    "a guarantee that an attack contradicts": (
        [name(0.01, 0.02)], "leak", {"gates": [EPSILON]}, {"guarantee": guarantee(6.0, "contradicted")}, 1
    ),
    "a contradicted guarantee whose epsilon is that of the baseline": (
        [name(0.0, 0.0)], "leak",
        {"gates": [EPSILON], "baseline": results(name(0.0, 0.0), review=guarantee(6.0))},
        {"guarantee": guarantee(6.0, "contradicted")}, 1,
    ),
    "a guarantee that is in doubt": (
        [name(0.01, 0.02)], "leak", {"gates": [EPSILON]}, {"guarantee": guarantee(6.0, "in doubt")}, 3
    ),
    "a guarantee that does not explain what was measured": (
        [name(0.01, 0.02)], "leak", {"gates": [EPSILON]}, {"guarantee": guarantee(6.0, "unexplained")}, 3
    ),
    "a leak that is waived": (
        [name(0.4, 0.5, "leak")], "leak", {"waivers": [waiver("memorization.*")]}, {}, 0
    ),
    "a waiver that expired": (
        [name(0.4, 0.5, "leak")], "leak", {"waivers": [waiver("memorization.*", OLD)]}, {}, 1
    ),
    "a waiver of another check": (
        [name(0.4, 0.5, "leak")], "leak", {"waivers": [waiver("membership.azk")]}, {}, 1
    ),
    "a gate that is waived": (
        [name(0.01, 0.04)], "leak", {"gates": [GAP], "waivers": [waiver("memorization", metric="ACC gap")]}, {}, 0
    ),
    "a waiver of a gate does not cover the finding": (
        [name(0.4, 0.5, "leak")], "leak", {"gates": [GAP], "waivers": [waiver("memorization", metric="ACC gap")]}, {}, 1
    ),
    "what could not be audited is not waived": (
        [membership(None)], "leak", {"gates": [TPR], "waivers": [waiver("membership")]}, {}, 3
    ),
    "a leak that was there before": (
        [name(0.4, 0.5, "leak")], "leak", {"baseline": results(name(0.4, 0.5, "leak"))}, {}, 0
    ),
    "a leak that was a weak sign": (
        [name(0.4, 0.5, "leak")], "leak", {"baseline": results(name(0.4, 0.5, "weak"))}, {}, 1
    ),
    "a leak that was unresolved": (
        [name(0.4, 0.5, "leak")], "leak", {"baseline": results(name(0.4, 0.5, "unresolved"))}, {}, 1
    ),
    "a number that is no worse": (
        [name(0.01, 0.04)], "leak", {"gates": [GAP], "baseline": results(name(0.02, 0.05))}, {}, 0
    ),
    "a number that got worse": (
        [name(0.01, 0.06)], "leak", {"gates": [GAP], "baseline": results(name(0.02, 0.05))}, {}, 1
    ),
    "a slice that got worse beside a larger one that did not": (
        [slices(0.3, 0.1)], "leak", {"gates": [TPR], "baseline": results(slices(0.3, 0.05))}, {}, 1
    ),
    "slices that are no worse": (
        [slices(0.3, 0.1)], "leak", {"gates": [TPR], "baseline": results(slices(0.3, 0.1))}, {}, 0
    ),
    "a waiver of one of two numbers": (
        [two_gaps()], "leak",
        {"gates": ["membership : gap <= 3 points"], "waivers": [waiver("membership", metric="acc_gap")]}, {}, 1,
    ),
    "epsilon that is no worse": (
        [name(0.0, 0.0)], "leak",
        {"gates": [EPSILON], "baseline": results(name(0.0, 0.0), review=guarantee(9.5))},
        {"guarantee": guarantee(9.0)}, 0,
    ),
}  # fmt: skip


def policy_of(given: Mapping[str, Any]) -> GatePolicy:
    baseline = given.get("baseline")
    made = read_policy(SPECS, **{key: value for key, value in given.items() if key != "baseline"})
    return replace(made, today=TODAY, baseline=Earlier(baseline, "b", "0") if baseline else None)


@pytest.mark.parametrize("case", CASES)
def test_gates_waivers_and_exit_codes(case: str) -> None:
    checks, fail_on, policy, more, code = CASES[case]
    verdict = decide(checks, fail_on, policy_of(policy), **more)
    assert exit_code(verdict) == code


def test_what_a_gate_says() -> None:
    verdict = decide([membership(0.0, 0.05), name(0.01, 0.02)], "leak", policy_of({"gates": [TPR, GAP]}))
    first, second = verdict.gate.numbers
    assert (first.check, first.status, first.metric) == ("membership.azk", "failed", "TPR at 1 % FPR")
    assert (first.compared, first.end, first.limit) == (0.05, "upper", pytest.approx(0.02))
    assert (second.status, second.compared, second.slice["pages"]) == ("passed", 0.02, "all pages")
    assert "1 of 2 gates by number is not passed" in verdict.summary


def test_the_least_favourable_number_decides() -> None:
    """Where a finding does not rest on the metric, every slice of the model under audit has to hold."""
    both = membership(0.0, 0.01)
    worse = metric("TPR at 1 % FPR", 0.01, (0.0, 0.3), slice={"model": "target", "s": 5})
    both = both.model_copy(update={"metrics": [*both.metrics, worse]})
    (result,) = decide([both], "leak", policy_of({"gates": [TPR]})).gate.numbers
    assert (result.status, result.slice["s"]) == ("failed", 5)
    (result,) = decide([both], "leak", policy_of({"gates": ["membership : tpr_at_1_fpr >= 0 %"]})).gate.numbers
    assert (result.status, result.end) == ("passed", "lower")


def test_waivers_and_the_baseline_are_recorded() -> None:
    given = {"waivers": [waiver("memorization.*"), waiver("membership"), waiver("membership", OLD)]}
    verdict = decide([name(0.4, 0.5, "leak")], "leak", policy_of(given))
    assert verdict.gate.waived == ["memorization.provider_name"]
    assert [one.status for one in verdict.gate.waivers] == ["used", "unused", "expired"]
    assert verdict.gate.waivers[0].reason == "synthetic companies"
    before = results(name(0.4, 0.5, "leak"))
    found = decide([name(0.4, 0.5, "leak")], "leak", policy_of({"baseline": before}), datasets=before.datasets)
    assert found.gate.baseline is not None
    assert (found.gate.as_before, found.gate.baseline.same_documents) == (["memorization.provider_name"], True)
    other = [before.datasets[0].model_copy(update={"sha256": "e"})]
    found = decide([name(0.4, 0.5, "leak")], "leak", policy_of({"baseline": before}), datasets=other)
    assert not (found.gate.baseline and found.gate.baseline.same_documents)


def test_what_gates_and_requirements_run() -> None:
    policy = read_policy(SPECS, gates=[TPR], require=["memorization"])
    assert checks_of(policy) == ("membership.azk", "membership.provider", "memorization.provider_name")
    assert read_policy(SPECS, gates=["membership.rmia : tpr <= 1 %"]).limits[0].expected == {"membership.rmia"}


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("membership.* : tpr_at_1_fpr <= 2 %", Limit("", "membership.*", "tpr_at_1_fpr", "<=", 0.02, "%")),
        ("a.b:ACC gap<3points", Limit("", "a.b", "acc_gap", "<", 0.03, "points")),
        ("guarantee.epsilon <= 8", Limit("", "guarantee", "epsilon", "<=", 8.0)),
        ("guarantee : delta < 1e-5", Limit("", "guarantee", "delta", "<", 1e-5)),
        ("a.b : exposure <= 1.5 bits on estimate", Limit("", "a.b", "exposure", "<=", 1.5, "bits", True)),
        ("a.b : PSNR <= 12 dB", Limit("", "a.b", "psnr", "<=", 12.0, "db")),
        ("a.b : ACC >= 50 %", Limit("", "a.b", "acc", ">=", 0.5, "%")),
    ],
)
def test_gates_are_read(text: str, limit: Limit) -> None:
    assert replace(parse_limit(text), text="") == replace(limit, value=pytest.approx(limit.value))


@pytest.mark.parametrize(
    "text",
    [
        "", "a", "a.b : tpr", "a.b : tpr <= ", "a.b : tpr <= x", "a.b : tpr <= 2 parsecs", "a.b : tpr == 2 %",
        "guarantee.colour <= 2", "guarantee.epsilon >= 2", "guarantee.epsilon <= 2 %", "tpr <= 2 %",
        "a.b : tpr <= nan", "a.b : tpr <= 2 % on hearsay", "a.b : \x1b[31m <= 2", "x" * 10_000, "a : " + "b" * 10_000,
        "a.b : _ <= 2 %", "a.b : tpr <= 1e999", "a.b : tpr <= 1e999 %",
    ],
)  # fmt: skip
def test_what_is_no_gate_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_limit(text)


@pytest.mark.parametrize(
    "given",
    [
        {"gates": ["nothing.at_all : tpr <= 2 %"]},
        {"require": ["nothing.at_all"]},
        {"gates": [TPR] * 101},
        {"waivers": [waiver("nothing.at_all")]},
    ],
)
def test_what_names_no_check_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        read_policy(SPECS, **given)


@pytest.mark.parametrize(
    "change",
    [
        {"reason": ""}, {"name": None}, {"expires": "tomorrow"}, {"expires": None}, {"until": 1}, {"check": ""},
        {"reason": "x" * 2000}, {"expires": 2026},
    ],
)  # fmt: skip
def test_a_waiver_without_reason_name_or_day_is_refused(change: dict[str, object]) -> None:
    table = {"check": "membership", "expires": "2026-12-31", **ACCEPTED}
    assert read_waivers([table])[0].expires == date(2026, 12, 31)
    with pytest.raises(UsageError, match="waiver 2: '"):
        read_waivers([table, table | change])


def test_slugs() -> None:
    assert [slug(name) for name in ("TPR at 1 % FPR", "ACC gap", "(MSE)")] == [
        "tpr_at_1_fpr",
        "acc_gap",
        "mse",
    ]


def test_every_gate_on_every_check_fits_results() -> None:
    """100 gates, the most that are taken, on as many checks as results hold."""
    checks = [name(0.0, 0.0).model_copy(update={"id": f"memorization.{number}"}) for number in range(200)]
    specs = {check.id: CheckSpec(check.id, "") for check in checks}
    policy = read_policy(
        specs, gates=[f"memorization : gap <= {most} points" for most in range(100)], require=list(specs)
    )
    verdict = decide(checks, "leak", policy)
    assert len(type(verdict).model_validate(verdict.model_dump()).gate.numbers) == 20_000
