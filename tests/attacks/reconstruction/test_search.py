import hashlib
import json
from contextlib import AbstractContextManager, contextmanager, suppress

import numpy as np
import pytest

from pfl_audit.attacks.reconstruction.plan import choose, count_passes
from pfl_audit.attacks.reconstruction.proposals import proposers
from pfl_audit.attacks.reconstruction.search import Guess, Reconstruction, reconstruct
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.form_protocol import Attempt, Blank
from pfl_audit.progress import Silent

from ...oracles import cdmi as oracle
from .fakes import SPECIAL, Fake, Memory, blank, loses, noise

SETTINGS = ReconstructionSettings(candidates=8, nucleus=0.6, attempts=3)
BLANKS = [
    blank(f"form {page}", f"field {number}", 1 + (page + number) % 5) for page in range(10) for number in range(2)
]


def public() -> Fake:
    return Fake("public", logits=noise("public"))


def tagger() -> Fake:
    return Fake("tagger", losses=loses({}, "tagger"), task="ee-bio")


def private() -> Fake:
    return Fake("private", logits=noise("private"), losses=loses({}, "private"))


def run(
    target: Fake, blanks: list[Blank] = BLANKS, settings: ReconstructionSettings = SETTINGS, **more: object
) -> list[Reconstruction]:
    options = {"progress": Silent(), **more}
    return reconstruct(blanks, *proposers(public(), target, settings), settings, 7, **options)  # type: ignore[arg-type]


def by_hand(target: Fake, one: Blank, attempt: int, kind: str) -> Guess:
    """Algorithm 2, one candidate at a time."""
    said = json.dumps([7, one.window.form.id, one.span.field.id, attempt, kind])
    rng = np.random.default_rng(int.from_bytes(hashlib.sha256(said.encode()).digest(), "little"))
    tokens: tuple[int, ...] = ()
    likely: list[tuple[float, float]] = []
    for step in range(one.length):
        mlm = kind == "attack" and target.task == "mlm"
        temperature = 0.3 * (1 + 2 * max(0, 3 - step) / 3)
        logits = public().token_logits([Attempt(one, tokens)])[0].astype(float)
        own = target.token_logits([Attempt(one, tokens)])[0].astype(float) if mlm else logits
        candidates = sorted(range(SPECIAL, len(own)), key=lambda at: -own[at])[:8]
        g = oracle.softmax([logits[at] for at in candidates], temperature)
        p = g
        if mlm:
            p = oracle.softmax([own[at] for at in candidates], temperature)
            every = oracle.softmax(logits[SPECIAL:].tolist(), temperature)
            g = [every[at - SPECIAL] for at in candidates]
        elif kind == "attack":
            losses = [float(target.losses([Attempt(one, (*tokens, at))])[0]) for at in candidates]
            p = oracle.mean(oracle.loss_likelihood(losses, 0.3), g, 0.4, "geometric")
        kept = oracle.nucleus(p, 0.6)
        at, left = 0, rng.random() * sum(p[place] for place in kept)
        while left >= p[kept[at]]:
            left -= p[kept[at]]
            at += 1
        tokens = (*tokens, candidates[kept[at]])
        likely.append((p[kept[at]], g[kept[at]]))
    ps, gs = zip(*likely, strict=True)
    return Guess(tokens, tuple(np.log(ps)), tuple(np.log(gs)))


@pytest.mark.parametrize("make", [tagger, private])
def test_every_attempt_against_algorithm_2_by_hand(make) -> None:  # type: ignore[no-untyped-def]
    for one, found in zip(BLANKS, run(make()), strict=True):
        assert (found.form, found.field) == (one.window.form.id, one.span.field.id)
        for kind, guesses in (("attack", found.attack), ("baseline", found.baseline)):
            for attempt, guess in enumerate(guesses):
                wanted = by_hand(make(), one, attempt, kind)
                assert guess.tokens == wanted.tokens
                assert guess.log_target == pytest.approx(wanted.log_target)
                assert guess.log_public == pytest.approx(wanted.log_public)


@pytest.mark.parametrize("make", [tagger, private])
def test_no_field_depends_on_the_others_or_their_order(make) -> None:  # type: ignore[no-untyped-def]
    whole = {(found.form, found.field): found for found in run(make())}
    for found in run(make(), BLANKS[::-3]):
        assert found == whole[found.form, found.field]


def test_one_shot_is_the_first_of_many_attempts() -> None:
    one = run(tagger(), settings=SETTINGS.model_copy(update={"attempts": 1}))
    assert [found.attack[0] for found in one] == [found.attack[0] for found in run(tagger())]


def test_attempts_differ_and_baseline_does_not_depend_on_the_target() -> None:
    found, other = run(tagger()), run(private())
    assert any(len(set(one.attack)) > 1 for one in found)
    assert [one.baseline for one in found] == [one.baseline for one in other]
    assert [one.attack for one in found] != [one.baseline for one in found]


@pytest.mark.parametrize("make", [tagger, private])
def test_a_prefix_is_asked_once_in_few_calls(make) -> None:  # type: ignore[no-untyped-def]
    target = make()
    run(target)
    assert len(target.asked) == len(set(target.asked))
    assert target.calls == sum(max(one.length for one in chunk) for chunk in chunks())


def chunks() -> list[list[Blank]]:
    order = sorted(BLANKS, key=lambda one: -one.length)
    return [order[:2], order[2:18], order[18:]]


def test_passes_lie_between_the_counts_that_were_told() -> None:
    for make, mlm in ((tagger, False), (private, True)):
        target, other = make(), public()
        of_target, of_public = count_passes(BLANKS, SETTINGS, mlm=mlm)
        reconstruct(BLANKS, *proposers(other, target, SETTINGS), SETTINGS, 7, progress=Silent())
        assert of_target[0] <= len(target.asked) <= of_target[1]
        assert of_public[0] <= len(other.asked) <= of_public[1]
        once, _ = count_passes(BLANKS, SETTINGS.model_copy(update={"attempts": 1}), mlm=mlm)
        assert once[0] == once[1] == of_target[0]


def test_a_private_mlm_is_never_asked_for_losses() -> None:
    target = Fake("private", logits=noise("private"))
    assert [one.attack for one in run(target)] == [one.attack for one in run(private())]


class _KilledError(Exception):
    pass


@pytest.mark.parametrize(("after", "done"), [(3, 0), (5, 2), (9, 2), (10, 18)])
def test_a_run_that_was_cut_asks_no_field_twice_and_ends_the_same(after: int, done: int) -> None:
    """Five steps for the first chunk of two fields, five for the sixteen of the second."""
    memory = Memory()
    first = tagger()
    say = first.losses

    def dies(attempts):  # type: ignore[no-untyped-def]
        if first.calls == after:
            raise _KilledError
        return say(attempts)

    first.losses = dies  # type: ignore[method-assign]
    with suppress(_KilledError):
        run(first, keep=memory)
    kept = len(memory)
    assert kept == done
    second = tagger()
    assert run(second, keep=memory) == run(tagger())
    assert len({field for field, _ in second.asked}) == len(BLANKS) - kept
    third = tagger()
    assert run(third, keep=memory) == run(tagger())
    assert third.calls == 0


def test_memory_is_by_content() -> None:
    memory = Memory()
    run(tagger(), keep=memory)
    for changed in ({"weight": 0.5}, {"attempts": 2}, {"nucleus": 0.5}, {"candidates": 7}, {"decay_steps": 2}):
        target = tagger()
        run(target, settings=SETTINGS.model_copy(update=changed), keep=memory)
        assert target.calls
    for same in ({"epsilon": 0.5}, {"ranking": "raw perplexity"}, {"longest": 20}):
        target = tagger()
        run(target, settings=SETTINGS.model_copy(update=same), keep=memory)
        assert not target.calls
    other = Fake("another tagger", losses=loses({}, "tagger"), task="ee-bio")
    run(other, keep=memory)
    assert other.calls


@pytest.mark.parametrize(
    "junk", ["null", "{}", '{"guesses": 3}', '{"guesses": [{"tokens": [3], "log_target": ["x"], "log_public": [1]}]}']
)
def test_what_was_not_kept_by_us_is_asked_again(junk: str) -> None:
    memory = Memory()
    wanted = run(tagger(), keep=memory)
    memory.update(dict.fromkeys(memory, junk))
    assert run(tagger(), keep=memory) == wanted


def test_progress_counts_every_token_and_tells_the_time() -> None:
    class Watch(Silent):
        def __init__(self) -> None:
            self.tasks: list[list[object]] = []
            self.said: list[str] = []

        def task(self, name: str, total: int, done: int = 0) -> AbstractContextManager[object]:  # type: ignore[override]
            line: list[object] = [name, total, done]
            self.tasks.append(line)

            class Task:
                def advance(self, amount: int = 1, note: str = "") -> None:
                    line[2] += amount  # type: ignore[operator]

            @contextmanager
            def watched():  # type: ignore[no-untyped-def]
                yield Task()

            return watched()

        def say(self, text: str) -> None:
            self.said.append(text)

    tokens = sum(one.length for one in BLANKS)
    watch, memory = Watch(), Memory()
    run(tagger(), BLANKS[:6], progress=Silent(), keep=memory)
    run(tagger(), progress=watch, keep=memory, label="control")
    assert watch.tasks == [["reconstruct control", tokens, tokens], ["baseline control", tokens, tokens]]
    assert len(watch.said) == 2
    assert "min" in watch.said[0]


def test_no_fields_need_no_model() -> None:
    target = tagger()
    assert run(target, []) == []
    assert not target.calls


def test_bad_models_are_one_clear_line() -> None:
    headless = Fake("x", losses=loses({}, "x"), task="el")
    with pytest.raises(UsageError, match=r"public model \(el\) has no masked-language head"):
        proposers(headless, tagger(), SETTINGS)
    with pytest.raises(UsageError, match=r"target \(ee-bio\) has no ee-bio head"):
        run(Fake("x", logits=noise("x"), task="ee-bio"))
    with pytest.raises(UsageError, match="different vocabularies"):
        run(Fake("x", logits=noise("x"), vocabulary=("a", "b")))
    for value in (np.nan, np.inf):
        with pytest.raises(AuditError, match="losses that are not numbers"):
            run(Fake("x", losses=lambda attempt, value=value: value, task="ee-bio"))
        with pytest.raises(AuditError, match="logits that are not numbers"):
            run(Fake("x", logits=lambda attempt, value=value: np.full(40, value, np.float32)))
    with pytest.raises(AuditError, match="logits that are not numbers"):
        run(Fake("x", logits=lambda attempt: np.full(40, -np.inf, np.float32)))


def test_fields_are_chosen_by_length_and_by_lot() -> None:
    pairs = [(one, (SPECIAL,) * one.length) for one in BLANKS]
    settings = ReconstructionSettings(shortest=2, longest=4)
    chosen = choose(pairs, settings, 0)
    assert {one.length for one, _ in chosen.fields} == {2, 3, 4}
    assert len(chosen.fields) + len(chosen.too_short) + len(chosen.too_long) == len(pairs)
    assert (chosen.too_short[0], chosen.not_drawn) == (("form 0", "field 0"), 0)
    few = choose(pairs, settings.model_copy(update={"fields": 3}), 0)
    more = choose(pairs[::-1], settings.model_copy(update={"fields": 6}), 0)
    assert (len(few.fields), few.not_drawn) == (3, len(chosen.fields) - 3)
    assert set(few.fields) <= set(more.fields) <= set(chosen.fields)
    assert [pair for pair in chosen.fields if pair in few.fields] == list(few.fields)


@pytest.mark.parametrize("wrong", [{"shortest": 9, "longest": 3}, {"nucleus": 0}, {"weight": 2}, {"seed": 1}])
def test_settings_refuse_what_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        ReconstructionSettings(**wrong)  # type: ignore[arg-type]
