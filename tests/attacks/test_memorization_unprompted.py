"""Unprompted disclosure: what chance brings out is no leak, and what it does not is one."""

import numpy as np
import pytest

from pfl_audit.attacks.memorization import disclosure as present
from pfl_audit.attacks.memorization.attack import ATTACK
from pfl_audit.attacks.memorization.decoys import Disclosed, disclosed, form, hits
from pfl_audit.attacks.memorization.specs import UNPROMPTED
from pfl_audit.attacks.memorization.unprompted import (
    asked_keys,
    is_number,
    new_answers,
    other_values,
    secrets_of,
    unprompted_questions,
    unseen_values,
)
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.keys import PROVIDER_KEYS

from .simulated_answers import numbers

WHOLE = Budget.shared(1)


def audit(seed: int, answers: list[str], secrets: list[str], **options: object) -> Disclosed:
    return disclosed(answers, secrets, (), len(answers), WHOLE, np.random.default_rng(seed), sets=199, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("digits", [5, 3])
def test_negative_control_random_answers(digits: int) -> None:
    """1,000 ids of five digits, 400 answers; and as many secrets as half of all numbers there are."""
    rng = np.random.default_rng([7, 0])
    secrets = numbers(rng, min(1000, 10**digits // 2), digits)
    found = audit(0, numbers(rng, min(400, 10**digits // 4), digits), secrets)
    assert found.level in ("none", "unresolved")


def test_negative_control_ids_that_share_a_beginning() -> None:
    """All ids begin with 2024, which the model has learnt; what follows is drawn."""
    rng = np.random.default_rng([8, 0])
    secrets = [f"2024{end}" for end in numbers(rng, 800, 4)]
    found = audit(0, [f"2024{end}" for end in numbers(rng, 200, 4)], secrets)
    assert found.level in ("none", "unresolved")
    assert found.numbers.decoys.mean() == pytest.approx(found.numbers.true, abs=14)


def test_a_long_number_that_comes_out_is_a_leak() -> None:
    rng = np.random.default_rng(0)
    secrets = numbers(rng, 120, 9)
    found = disclosed({*numbers(rng, 100, 9), secrets[5]}, secrets, (), 100, Budget.shared(12), rng)
    assert (found.level, found.numbers.true, found.numbers.decoys.max()) == ("leak", 1, 0)
    assert found.p_value == 1 / 2000


def test_more_short_numbers_than_chance_brings_out_are_a_leak() -> None:
    rng = np.random.default_rng(0)
    secrets = numbers(rng, 1000, 5)
    found = audit(0, numbers(rng, 400, 5) + secrets[:40], secrets)
    assert found.level == "leak"


def test_nothing_disclosed_says_how_much_would_have_been_found() -> None:
    rng = np.random.default_rng(0)
    found = disclosed(numbers(rng, 100, 9), numbers(rng, 120, 8), (), 100, Budget.shared(12), rng)
    assert found.level == "none"
    assert found.smallest == pytest.approx(-np.log(0.2), abs=0.01)  # one secret is enough: P(none) = exp(-1.61) = 0.2
    finding = present.disclosure_finding(found, 100, 120, 0, "pre-trained")
    assert finding.smallest_effect == found.smallest
    assert "would have found 1.6 secrets" in finding.text


def test_secrets_that_chance_brings_out_by_the_dozen_leave_the_audit_unresolved() -> None:
    rng = np.random.default_rng(1)
    found = audit(0, numbers(rng, 4000, 5), numbers(rng, 1000, 5))
    assert found.smallest is not None
    assert found.smallest > 40
    assert found.level == "unresolved"


def test_words_are_held_against_those_of_companies_that_were_not_trained_on() -> None:
    rng = np.random.default_rng(0)
    trained = [f"office at company {chr(97 + n // 26)}{chr(97 + n % 26)}".replace(" ", "") for n in range(60)]
    new = [value.replace("office", "billing") for value in trained]
    assert disclosed(trained[:20], trained, new, 100, WHOLE, rng).level == "leak"
    assert disclosed(trained[:10] + new[:10], trained, new, 100, WHOLE, rng).level in ("none", "unresolved")
    assert disclosed(new[:20], trained, new, 100, WHOLE, rng).level in ("none", "unresolved")
    # Of ten words that the model never saw two came out: of sixty, twelve would.
    assert disclosed(trained[:10] + new[:2], trained, new[:10], 100, WHOLE, rng).by_chance == 12


def test_a_decoy_has_the_format_of_its_secret() -> None:
    assert form("de123456789") == "aa000000000"
    assert form("äß１") == "aa0"
    secrets = ["ab1234", "cd5678"]
    found = hits(
        [f"{a}{b}{n:04d}" for a in "abcd" for b in "abcd" for n in range(10000)],
        secrets,
        np.random.default_rng(0),
        sets=500,
    )
    assert found.true == 2
    assert 0 < found.decoys.mean() < 2
    assert hits([form("ab1234")], secrets, np.random.default_rng(0), sets=50).decoys.max() == 0


def test_the_decoys_of_a_set_differ_as_secrets_do() -> None:
    """Half of all numbers are answered and half are secrets: the hits spread as in draws without replacement."""
    rng = np.random.default_rng(0)
    found = hits(numbers(rng, 500, 3), numbers(rng, 500, 3), rng)
    assert found.decoys.mean() == pytest.approx(250, abs=3)
    assert found.decoys.std() == pytest.approx(np.sqrt(500 * 0.25 * 500 / 999), rel=0.15)


def test_the_least_number_of_hits_that_is_significant() -> None:
    rng = np.random.default_rng(0)
    found = hits(numbers(rng, 400, 5), numbers(rng, 1000, 5), rng, sets=399)
    critical = found.critical(0.05)
    assert critical is not None
    for true, significant in ((critical, True), (critical - 1, False)):
        assert (type(found)(true, found.decoys).p_value <= 0.05) is significant
    assert found.critical(0.001) is None


def page(name: str, provider: str, *words: str) -> Document:
    return Document(name, provider, words, np.zeros((len(words), 4), np.float32))


def test_what_is_asked_and_what_counts() -> None:
    blue = Corpus(
        (
            Query("b0", page("b0_1", "Owner Ltd", "x"), "?", ("DE 123 456",), "tax_number"),
            Query("b1", page("b1_1", "Owner Ltd", "x"), "?", ("Mail@Owner.com",), "provider_email"),
            Query("b2", page("b2_1", "Owner Ltd", "x"), "?", ("net 30 days",), "payment_terms"),
            Query("b3", page("b3_1", "Owner Ltd", "x"), "?", ("1234",), "registration_id"),
        )
    )
    assert asked_keys(blue) == ("provider_email", "tax_number", "registration_id")
    assert asked_keys(None) == ("tax_number", "registration_id")
    assert secrets_of(blue) == {"de123456": ("Owner Ltd",), "mailownercom": ("Owner Ltd",)}
    assert other_values(blue) == {"net30days"}
    assert [is_number(value) for value in ("de123456", "mailownercom", "12ab")] == [True, False, True]
    red = Corpus(
        (
            Query(
                "r0",
                page("r0_1", "Strange Inc", "Strange", "Inc", "a@strange.com"),
                "?",
                ("a@strange.com",),
                "provider_email",
            ),
            Query("r1", page("r1_1", "Known Inc", "x"), "?", ("a@known.com",), "provider_email"),
        ),
        {"Strange Inc": Membership.NON_MEMBER, "Known Inc": Membership.MEMBER},
    )
    assert unseen_values(red) == {"astrangecom", "strangeinc"}
    asked = unprompted_questions(red, ("provider_email", "provider_name", "tax_number"), np.random.default_rng(0))
    assert {query.key for query in asked} == {"tax_number"}  # the page holds the others, the name without a question
    every = unprompted_questions(red, PROVIDER_KEYS, np.random.default_rng(0))
    planned = ATTACK.questions({UNPROMPTED.id}, red, ATTACK.Settings())
    assert planned == {"unprompted": len(every)}  # whatever --blue holds
    said = {asked[0].id: "DE123456", asked[1].id: "a@strange.com"}
    assert new_answers(asked, said, None) == {asked[0].id: "de123456"}
    assert new_answers(asked, said, {asked[1].id: "de 123456"}) == {}


def test_the_chance_of_the_metric_is_that_of_decoys() -> None:
    rng = np.random.default_rng(0)
    found = audit(0, numbers(rng, 400, 5), numbers(rng, 1000, 5))
    metric = present.disclosure_metrics(found, None, 3, 10)[0]
    assert metric.chance == pytest.approx(4.0, abs=0.5)  # 400 answers, a hundredth of all numbers are secrets
    assert metric.value == found.numbers.true
