"""The privacy guarantee in the report and in the terminal."""

import json
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli.summary import show_verdict
from pfl_audit.core.audit_verdict import decide
from pfl_audit.core.comparison import compare
from pfl_audit.core.contradiction import held_against, surest_bounded
from pfl_audit.core.gate_policy import read_policy
from pfl_audit.core.results import Check, Finding, Metric, Results, read_results, write_results
from pfl_audit.privacy.review import review_record
from pfl_audit.reports.guarantee import view_guarantee
from pfl_audit.reports.html import to_html
from pfl_audit.reports.markdown import to_model_card
from pfl_audit.reports.sarif import to_sarif
from tests.privacy.test_guarantee import CLAIM, HONEST
from tests.privacy.training_records import DOCUMENTS, record_of, review_claim
from tests.reports.test_html import HOSTILE, check, metric, results, tags


def claimed(claim: Any, *checks: Check, drawn: bool = True, groups: bool = False) -> Results:
    base = results(*checks)
    base = base.model_copy(
        update={
            "datasets": [
                data.model_copy(update={"classes_random": drawn, "groups_random": groups}) for data in base.datasets
            ]
        }
    )
    target = base.target.model_copy(update={"training_claim": {"privacy": claim}})
    return reviewed(base.model_copy(update={"target": target}), claim)


def reviewed(found: Results, claim: Any) -> Results:
    """The results with their guarantee held against their checks, as the runner does it."""
    review = held_against(review_record(record_of(claim)), found.checks, found.datasets)
    return found.model_copy(update={"target": found.target.model_copy(update={"claim_review": review})})


def worth(found: Results) -> str:
    review = found.target.claim_review
    assert review is not None
    return review.worth


def contradicts_guarantee(found: Results) -> bool:
    return worth(found) == "contradicted"


def balanced(value: float, low: float, **about: Any) -> Metric:
    return metric(
        "balanced accuracy",
        value=value,
        ci=(low, min(1.0, 2 * value - low)),
        slice={"s": 5, "model": "target", **about},
        role="bounded",
        n=200,
    )


def text_of(found: Results) -> str:
    view = view_guarantee(found)
    assert view is not None
    return " | ".join([view.word, view.headline, view.effective, *(f"{name}: {text}" for name, text in view.rows)])


def test_the_claim_stands_beside_what_was_measured(tmp_path: Path) -> None:
    found = claimed(CLAIM, check(metrics=[metric(), balanced(0.64, 0.58)]))
    html = to_html(found, tmp_path)
    section = html[html.index('id="guarantee"') : html.index('id="coverage"')]
    for text in (
        "epsilon 8 at delta 1e-05 for a provider",
        "Published accounting: effective epsilon 14.46",
        "add/remove one provider",
        "PRV 14.46, Rényi 16.28",
        "99.97 % balanced accuracy of any attack on providers; the mechanism that is stated allows 78.5",
        "64.0 % [58.0, 70.0]",
        "does not contradict the guarantee",
        "the stated epsilon is 8, the recomputed epsilon is 14.46",
        "the choice of settings by looking at results",
        "a server that sees single updates",
    ):
        assert text in section
    assert "Weaker" in section


def test_a_claim_that_holds_says_so() -> None:
    assert text_of(claimed(HONEST)).startswith("Holds | epsilon 8 at delta 1e-05 for a provider | As stated: ")
    assert "Measured: no membership attack on providers ran" in text_of(claimed(HONEST))


TIGHT = {**HONEST, "epsilon": 0.1, "noise_multiplier": 30.0}
"""Allows 52.5 % and no more."""


def test_a_measurement_above_the_claim_contradicts_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = claimed(TIGHT, check(metrics=[balanced(0.7, 0.6)]))
    assert "Contradicted" in text_of(found)
    assert "70.0 % [60.0, 80.0] (AZK · s = 5): contradicts the guarantee" in text_of(found)
    show_verdict(found, tmp_path, [])
    assert "contradicted by what was measured" in capsys.readouterr().out


def test_the_best_of_many_must_be_clearer_than_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = balanced(0.7, 0.53)
    alone = claimed(TIGHT, check(metrics=[one]))
    among = claimed(TIGHT, check(metrics=[one, *(balanced(0.5, 0.4, s=at) for at in range(20))]))
    assert contradicts_guarantee(alone)
    assert not contradicts_guarantee(among)
    assert "not once the choice of the best attack is counted" in text_of(among)
    more = [balanced(0.75, 0.69), *(balanced(0.5, 0.4, s=at) for at in range(20))]  # than the mechanism, not epsilon
    doubtful = claimed(HONEST, check(metrics=more))
    assert text_of(doubtful).startswith("In doubt | ")
    assert "not once the choice of the best attack is counted" in text_of(doubtful)
    assert worth(doubtful) == "in doubt"
    show_verdict(doubtful, tmp_path, [])
    assert "not once its choice is counted" in capsys.readouterr().out


@pytest.mark.parametrize(("epsilon", "noise"), [(8.0, 0.77), (20.0, 0.5)])
def test_a_perfect_attack_on_a_few_providers_does_not_contradict_a_large_epsilon(epsilon: float, noise: float) -> None:
    few = balanced(1.0, 1.0).model_copy(update={"n": 40})
    stated = {**HONEST, "epsilon": epsilon, "noise_multiplier": noise}
    assert not contradicts_guarantee(claimed(stated, check(metrics=[few]), drawn=False))
    assert not contradicts_guarantee(claimed({**stated, "adjacency": "replace one"}, check(metrics=[few])))
    assert contradicts_guarantee(claimed(TIGHT, check(metrics=[few])))


FORGED = check(metrics=[balanced(0.957, 0.92)])
"""Of a model that was trained without privacy, with a copied guarantee whose mechanism allows 67.6 %."""


def test_a_forged_guarantee_does_not_explain_what_was_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged = claimed(HONEST, FORGED, drawn=False)
    assert worth(forged) == "unexplained"
    assert text_of(forged).startswith("Does not explain | ")
    assert "the mechanism that is stated allows 67.6" in text_of(forged)
    assert "not explained by it: the guarantee is false, or members and non-members differ" in text_of(forged)
    show_verdict(forged, tmp_path, [])
    assert "more was measured than it allows" in capsys.readouterr().out


def test_a_forged_guarantee_is_contradicted_where_the_classes_were_drawn() -> None:
    """By the trade-off curve of its mechanism: epsilon 8 alone allows the attack."""
    assert text_of(claimed(HONEST, FORGED)).startswith("Contradicted | ")
    within = check(metrics=[balanced(0.70, 0.66)])
    assert not contradicts_guarantee(claimed(HONEST, within))
    other = claimed({**HONEST, "adjacency": "replace one"}, FORGED)  # its curve is not comparable
    assert not contradicts_guarantee(other)


def test_a_large_class_makes_a_small_one_no_surer() -> None:
    """A balanced accuracy over a few members is no contradiction, however many non-members are in it."""
    found = claimed(HONEST, FORGED.model_copy(update={"subject": "questions"}))
    for members, contradicted in ((100, True), (10, False)):
        sizes = {"members": members, "non_members": 200 - members}
        data = [found.datasets[0].model_copy(update=sizes)]
        assert contradicts_guarantee(reviewed(found.model_copy(update={"datasets": data}), HONEST)) is contradicted


@pytest.mark.parametrize(("value", "low", "count"), [(0.8, 0.74, 200), (0.94, 0.9, 200), (0.957, 0.8, 30)])
def test_a_binomial_interval_above_the_mechanism_is_no_contradiction(value: float, low: float, count: int) -> None:
    """The trade-off curve of the mechanism is contradicted from 189 correct guesses of 200 on."""
    found = claimed(HONEST, check(metrics=[balanced(value, low).model_copy(update={"n": count})]))
    assert not contradicts_guarantee(found)
    assert text_of(found).startswith("Does not explain | ")


def test_classes_that_were_not_drawn_contradict_no_guarantee() -> None:
    found = claimed(TIGHT, check(metrics=[balanced(0.7, 0.6)]), drawn=False)
    assert text_of(found).startswith("Does not explain | ")


def test_a_guarantee_for_documents_is_held_against_attacks_on_documents_alone(tmp_path: Path) -> None:
    """A perfect attack on companies is no contradiction of a guarantee for documents, and is said not to be bounded."""
    perfect = balanced(1.0, 1.0)
    stated = {**TIGHT, **DOCUMENTS}
    providers = claimed(stated, check(metrics=[perfect]))
    assert worth(providers) == "holds"
    text = text_of(providers)
    assert "for one document with all its pages and questions and not for a provider" in text
    assert "it bounds no attack on providers" in text
    assert "Measured: no membership attack on documents ran" in text
    again = held_against(providers.target.claim_review, providers.checks, providers.datasets)
    assert again == providers.target.claim_review
    documents = claimed(stated, check(metrics=[perfect.model_copy(update={"unit": "documents"})]))
    assert worth(documents) == "contradicted"
    assert worth(claimed(TIGHT, check(metrics=[perfect.model_copy(update={"unit": "documents"})]))) == "holds"
    assert "each of its documents with probability 0.2" in text
    policy = read_policy({}, gates=["guarantee.epsilon <= 8.1"])
    for found, unit, status in ((providers, "providers", "not audited"), (providers, "documents", "passed")):
        datasets = [data.model_copy(update={"unit": unit}) for data in found.datasets]
        verdict = decide(found.checks, "leak", policy, guarantee=found.target.claim_review, datasets=datasets)
        assert [one.status for one in verdict.gate.numbers] == [status]
    assert "guessed without the document" in to_html(providers, tmp_path)


def test_the_control_and_other_metrics_do_not_count() -> None:
    control = balanced(0.99, 0.98, model="pre-trained").model_copy(update={"role": None})
    found = surest_bounded([check(metrics=[metric(), control, balanced(0.6, 0.5)])], "provider")
    assert found is not None
    assert found.metric.value == 0.6
    assert found.low == pytest.approx(0.5)
    assert surest_bounded([check(metrics=[metric()])], "provider") is None


@pytest.mark.parametrize("hostile", [{"epsilon": HOSTILE}, [HOSTILE], {**CLAIM, "sampling": HOSTILE}])
def test_a_claim_that_cannot_be_read_is_shown_as_such(hostile: object, tmp_path: Path) -> None:
    html = to_html(claimed(hostile), tmp_path)
    assert "The stated guarantee cannot be read" in html
    assert html.count("<script") == 1


def test_hostile_text_of_a_claim_is_text(tmp_path: Path) -> None:
    changes = dict.fromkeys(("unit", "adjacency", "accountant", "noise_generator"), HOSTILE)
    html = to_html(claimed({**CLAIM, **changes, "not_covered": [HOSTILE]}), tmp_path)
    assert "&lt;script&gt;" in html
    assert [name for name, _ in tags(html)].count("script") == 1
    assert not [attributes for _, attributes in tags(html) if "onerror" in attributes]


@pytest.mark.parametrize("privacy", [None, "none: trained without differential privacy"])
def test_without_a_claim_there_is_no_section(privacy: object, tmp_path: Path) -> None:
    html = to_html(claimed(privacy), tmp_path)
    assert 'id="guarantee"' not in html
    assert privacy is None or str(privacy) in html


DOUBTFUL = check(metrics=[balanced(0.75, 0.69), *(balanced(0.5, 0.4, s=at) for at in range(20))])


@pytest.mark.parametrize(("found", "drawn", "worth"), [(DOUBTFUL, True, "in doubt"), (FORGED, False, "unexplained")])
def test_a_pipeline_reads_what_the_words_say(found: Check, drawn: bool, worth: str, tmp_path: Path) -> None:
    """results.json and its gate, SARIF, the model card and a comparison have the worth of the first page."""
    said = claimed(HONEST, found, drawn=drawn)
    policy = read_policy({}, gates=["guarantee.epsilon <= 8.1"])
    verdict = decide(said.checks, "leak", policy, guarantee=said.target.claim_review)
    said = said.model_copy(update={"verdict": verdict})
    write_results(said, tmp_path)
    review = json.loads((tmp_path / "results.json").read_text())["target"]["claim_review"]
    assert review["worth"] == worth
    assert [one.status for one in verdict.gate.numbers] == ["not audited"]
    for text in (to_sarif(said), to_model_card(said), compare([(said, tmp_path)] * 2).columns[0].guarantee):
        assert review["text"].split("; ")[1] in text
    assert read_results(tmp_path) == said


def test_canaries_that_contradict_a_guarantee_are_its_worth() -> None:
    measured = [metric("epsilon at least", role="epsilon")]
    for level, expected in (("leak", "contradicted"), ("none", "holds")):
        canaries = check(metrics=measured, finding=Finding(level=level, text="", remedy=""))
        assert worth(claimed(HONEST, canaries)) == expected


def test_a_file_that_states_the_worth_by_accounting_alone_is_read_with_what_was_measured(tmp_path: Path) -> None:
    said = claimed(HONEST, FORGED, drawn=False)
    target = said.target.model_copy(update={"claim_review": review_claim(HONEST)})
    write_results(said.model_copy(update={"target": target}), tmp_path)
    assert read_results(tmp_path) == said


def test_results_with_a_claim_survive_their_file() -> None:
    found = claimed(CLAIM, check())
    assert Results.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize(
    ("sampling", "said"),
    [
        ({"client_rate": 1.0, "provider_rate": 0.1}, "every client, and each of its providers with probability 0.1"),
        ({"client_rate": 0.2, "provider_rate": 1.0}, "each client with probability 0.2, with all its providers"),
        (
            {"kind": "fixed-size", "client_rate": 0.2, "provider_rate": 0.125},
            "a share of 0.2 of the clients, and of 0.125 of the providers of each, without replacement",
        ),
    ],
)
def test_who_takes_part_in_a_round_is_said(sampling: dict[str, Any], said: str) -> None:
    assert f"a round has {said}" in text_of(claimed({**HONEST, "sampling": {**HONEST["sampling"], **sampling}}))


def test_what_all_runs_spend_is_said() -> None:
    """A reader of one run's epsilon must not take it for that of ten."""
    assert "All runs, as stated: not stated: other private runs" in text_of(claimed({**HONEST, "composed": None}))
    first = {"epsilon": 8.0, "delta": 1e-5, "runs": 1, "order": 2.1}
    assert "the first run over these data" in text_of(claimed({**HONEST, "composed": first}))
    tenth = {**first, "epsilon": 31.4159, "runs": 10}
    found = text_of(claimed({**HONEST, "composed": tenth}))
    assert "epsilon 31.42 at delta 1e-05 for the 10 runs over these data" in found
    assert "This is for one run: 10 runs over these data spend epsilon 31.42 together" in found
    assert "This is for one run" not in text_of(claimed({**HONEST, "composed": first}))


def test_the_carrier_of_the_noise_is_said() -> None:
    assert "full noise on every client's message" not in text_of(claimed(CLAIM))
    assert "full noise on every client&#x27;s message" in text_of(claimed({**CLAIM, "noise": "message"})).replace(
        "'", "&#x27;"
    )


def test_what_the_guarantee_allows_of_reconstruction_is_a_table(tmp_path: Path) -> None:
    found = claimed(HONEST)
    view = view_guarantee(found)
    assert view is not None
    assert view.reconstruction is not None
    rows = {row[0]: row[1:] for row in view.reconstruction.rows}
    assert rows["0.01 %"] == ["0.9797 %", "29.34 %"]
    assert rows["50 %"][1] == "100 %"
    assert "Reconstruction that the guarantee allows" in to_html(found, tmp_path)


def secrets(share: float, low: float, role: str, most: int = 64) -> Metric:
    about = {"model": "target", "guesses": most, "with": role}
    return metric("secrets put back", value=share, ci=(low, share + 0.02), slice=about, role=role, format="percent")


@pytest.mark.parametrize(("low", "explained"), [(0.05, True), (0.5, False)])
def test_secrets_that_were_put_back_stand_beside_what_is_allowed(low: float, explained: bool) -> None:
    found = claimed(HONEST, check(metrics=[secrets(low + 0.01, low, "put_back"), secrets(0.001, 0.0, "guessed")]))
    said = text_of(found)
    assert f"Put back: {100 * low + 1:.1f} %" in said
    assert "within 64 guesses, 0.1 % [0.0, 2.1] without training" in said
    bound = next(one for one in found.target.claim_review.reconstruction if one.prior >= 0.021)  # type: ignore[union-attr]
    assert bound.prior == 0.05
    assert f"of what is guessed with 5 %, {100 * bound.by_mechanism:.4g} % may come back" in said  # type: ignore[operator]
    assert ("not explained by it" in said) != explained


def test_without_a_model_beside_it_nothing_is_held_against_the_guarantee() -> None:
    assert "Put back" not in text_of(claimed(HONEST, check(metrics=[secrets(0.5, 0.4, "put_back")])))


def test_classes_of_drawn_groups_contradict_no_guarantee() -> None:
    perfect = balanced(1.0, 1.0).model_copy(update={"n": 40})
    assert contradicts_guarantee(claimed(TIGHT, check(metrics=[perfect])))
    assert not contradicts_guarantee(claimed(TIGHT, check(metrics=[perfect]), groups=True))
