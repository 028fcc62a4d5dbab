"""How many guesses a field takes, against every filling of it."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_audit.attacks.guesses.field import Rank
from pfl_audit.attacks.reconstruction.guessing import rank_truths
from pfl_audit.attacks.reconstruction.proposals import Proposer, baseline_proposer, proposer, proposers
from pfl_audit.attacks.reconstruction.search import reconstruct
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.models.form_protocol import Attempt, Blank
from pfl_audit.progress import Silent

from ...oracles import cdmi as oracle
from .fakes import SPECIAL, Fake, Memory, blank, knows, loses, noise

SMALL = ("[MASK]", "[CLS]", "[SEP]", "a", "b", "c", "d")
TOKENS = range(SPECIAL, len(SMALL))
SETTINGS = ReconstructionSettings(candidates=4)


def says(seed: object, scale: float) -> object:
    """Logits of noise over the small vocabulary."""
    whole = noise(seed, scale)
    return lambda attempt: whole(attempt)[: len(SMALL)]


def public(seed: int, scale: float = 2.0) -> Fake:
    return Fake("public", logits=says(["public", seed], scale), vocabulary=SMALL)  # type: ignore[arg-type]


def target(task: str, seed: int) -> Fake:
    return Fake(
        "target",
        logits=says(["target", seed], 2.0),  # type: ignore[arg-type]
        losses=loses({}, seed),
        task=task,  # type: ignore[arg-type]
        vocabulary=SMALL,
    )


def every_filling(one: Blank, proposer: Proposer) -> list[tuple[tuple[int, ...], float]]:
    """All fillings over the candidates with their likelihoods, token by token."""
    found: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    for step in range(one.length):
        longer = []
        for prefix, likelihood in found:
            (proposal,) = proposer.propose([Attempt(one, prefix)], step)
            for token, log in zip(proposal.tokens, proposal.log_target, strict=True):
                longer.append(((*prefix, int(token)), likelihood * float(np.exp(log))))
        found = longer
    return found


def rank(one: Blank, truth: tuple[int, ...], by: Proposer, guesses: int, expansions: int = 10_000) -> Rank:
    return rank_truths([(one, truth)], by, guesses, expansions, progress=Silent())[0]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.sampled_from(["mlm", "ee-bio"]),
    st.sampled_from([1, 2, 8, 64, 300]),
    st.sampled_from([2, 4]),
)
def test_the_place_is_that_among_all_fillings(seed: int, length: int, task: str, guesses: int, candidates: int) -> None:
    """Within k guesses are exactly the first k of a best-first search that returns them."""
    one = blank("form", "field", length)
    by = proposer(public(seed), target(task, seed), SETTINGS.model_copy(update={"candidates": candidates}))
    fillings = every_filling(one, by)
    first = [filling for filling, _ in oracle.best_first(fillings, guesses)]
    rng = np.random.default_rng(seed)
    for truth in {tuple(int(token) for token in rng.choice(TOKENS, size=length)) for _ in range(6)} | {first[0]}:
        found = rank(one, truth, by, guesses)
        assert not found.cut
        assert found.within(guesses) == (truth in first)
        if truth in first:
            assert found.before == first.index(truth)
            assert found.expanded <= sum(len(TOKENS) ** step for step in range(length))
        else:
            assert found.before == guesses


def test_only_prefixes_that_matter_are_expanded_and_once() -> None:
    """Those at least as likely as the truth; the others have no filling that counts."""
    one = blank("form", "field", 4)
    model = target("mlm", 3)
    by = proposer(public(3), model, SETTINGS)
    fillings = every_filling(one, by)
    likelihoods = dict(fillings)
    truth = oracle.best_first(fillings, 20)[-1][0]
    model.asked.clear()
    found = rank(one, truth, by, 300)
    asked = [prefix for _, prefix in model.asked]
    assert len(asked) == len(set(asked)) == found.expanded
    likely = {
        prefix
        for step in range(4)
        for prefix in product(TOKENS, repeat=step)
        if sum(p for filling, p in likelihoods.items() if filling[:step] == prefix) >= likelihoods[truth] * (1 - 1e-9)
    }
    assert set(asked) == likely


def test_a_filling_that_is_as_likely_comes_first() -> None:
    """The attacker gains nothing by the order of equal ones."""
    flat = Fake("flat", logits=says(0, 0.0), vocabulary=SMALL)  # type: ignore[arg-type]
    found = rank(blank("form", "field", 2), (3, 3), baseline_proposer(flat, SETTINGS), 64)
    assert found == Rank(before=15, cut=False, expanded=5)


def test_a_search_that_is_cut_off_says_so() -> None:
    flat = Fake("flat", logits=says(0, 0.0), vocabulary=SMALL)  # type: ignore[arg-type]
    by = baseline_proposer(flat, SETTINGS)
    found = rank(blank("form", "field", 3), (3, 3, 3), by, 64, expansions=4)
    assert (found.cut, found.expanded) == (True, 4)
    assert found.before < 63
    assert not found.within(64)
    assert found.possibly_within(64)
    assert rank(blank("form", "field", 3), (3, 3, 3), by, 64).before == 63
    early = rank(blank("form", "field", 3), (3, 3, 3), by, 64, expansions=2)
    assert (early.before, early.cut) == (0, True)


def test_a_truth_that_is_no_candidate_is_never_put_back() -> None:
    model = target("mlm", 1)
    by = proposer(public(1), model, SETTINGS.model_copy(update={"candidates": 1}))
    one = blank("form", "field", 3)
    ((best, _),) = every_filling(one, by)
    assert rank(one, best, by, 64) == Rank(0, False, 3)
    wrong = next(token for token in TOKENS if token != best[0])
    assert rank(one, (wrong, *best[1:]), by, 64) == Rank(64, False, 1)


def fields(count: int) -> list[tuple[Blank, tuple[int, ...]]]:
    rng = np.random.default_rng(7)
    blanks = [blank(f"form {at}", "field", 1 + at % 4) for at in range(count)]
    return [(one, tuple(int(token) for token in rng.choice(TOKENS, size=one.length))) for one in blanks]


@pytest.mark.parametrize("task", ["mlm", "ee-bio"])
def test_no_field_depends_on_the_others_or_their_order(task: str) -> None:
    some = fields(30)
    by = proposer(public(2), target(task, 2), SETTINGS)
    whole = rank_truths(some, by, 20, 15, progress=Silent())
    assert len({found.before for found in whole}) > 5
    assert any(found.cut for found in whole)
    assert rank_truths(some[::-3], by, 20, 15, progress=Silent()) == whole[::-3]


def test_an_mlm_target_is_searched_without_the_public_model() -> None:
    other = public(2)
    rank_truths(fields(6), proposer(other, target("mlm", 2), SETTINGS), 20, 50, progress=Silent())
    assert not other.calls


def test_what_the_attempts_asked_is_not_asked_again() -> None:
    some = fields(12)
    model, other = target("mlm", 5), public(5)
    by = proposers(other, model, SETTINGS)
    reconstruct([one for one, _ in some], *by, SETTINGS, 0, progress=Silent())
    found = [rank_truths(some, each, 20, 50, progress=Silent()) for each in by]
    assert len(model.asked) == len(set(model.asked))
    alone = proposer(public(5), target("mlm", 5), SETTINGS), baseline_proposer(public(5), SETTINGS)
    assert found == [rank_truths(some, each, 20, 50, progress=Silent()) for each in alone]


def test_places_are_kept_by_content() -> None:
    memory, some = Memory(), fields(12)
    wanted = rank_truths(some, proposer(public(2), target("mlm", 2), SETTINGS), 20, 50, progress=Silent(), keep=memory)  # type: ignore[arg-type]
    assert len(memory) == 12

    def again(guesses: int = 20, expansions: int = 50, **changed: object) -> int:
        model = target("mlm", 2)
        by = proposer(public(2), model, SETTINGS.model_copy(update=changed))
        found = rank_truths(some, by, guesses, expansions, progress=Silent(), keep=memory)  # type: ignore[arg-type]
        assert changed or (guesses, expansions) != (20, 50) or found == wanted
        return model.calls

    assert again() == 0
    assert again(guesses=21) > 0
    assert again(expansions=51) > 0
    assert again(public_temperature=0.5) > 0
    memory.update(dict.fromkeys(memory, '{"before": -1, "cut": false, "expanded": 1}'))
    assert again() > 0


def test_a_remembered_value_takes_one_guess() -> None:
    truths = {("form", "field"): (5, 9, 14, 20)}
    by = proposers(Fake("public", logits=noise(1, 0.1)), Fake("target", logits=knows(truths, 2, 9.0)), SETTINGS)
    one = blank("form", "field", 4)
    found = [rank_truths([(one, (5, 9, 14, 20))], each, 64, 500, progress=Silent())[0] for each in by]
    assert found[0].within(1)
    assert not found[1].possibly_within(64)
