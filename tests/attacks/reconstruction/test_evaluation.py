import numpy as np
import pytest
from scipy.stats import beta

from pfl_audit.attacks.guesses.resamples import Resampled
from pfl_audit.attacks.reconstruction import measures
from pfl_audit.attacks.reconstruction.evaluation import evaluate
from pfl_audit.attacks.reconstruction.outcomes import Attacked
from pfl_audit.attacks.reconstruction.search import Guess, Reconstruction
from pfl_audit.metrics.intervals import bootstrap_weights

from ...oracles import cdmi as oracle


def guess(tokens: tuple[int, ...], target: float = -0.1, public: float = -1.0) -> Guess:
    return Guess(tokens, (target,) * len(tokens), (public,) * len(tokens))


def field(document: str, truth: tuple[int, ...], attack: list[Guess], baseline: list[Guess]) -> Attacked:
    return Attacked(document, truth, Reconstruction(document, "a", tuple(attack), tuple(baseline)))


RIGHT, HALF, WRONG = (1, 2), (1, 9), (9, 9)
FIELDS = [
    field("a", RIGHT, [guess(HALF), guess(RIGHT, public=-3.0)], [guess(WRONG), guess(HALF, public=-0.5)]),
    field("a", RIGHT, [guess(RIGHT, public=-2.0), guess(WRONG)], [guess(RIGHT), guess(WRONG, public=-2.0)]),
    field(
        "b", RIGHT, [guess(WRONG, public=-0.2), guess(WRONG)], [guess(WRONG, public=-9.0), guess(WRONG, public=-9.5)]
    ),
]


def test_point_values_by_hand() -> None:
    """One-shot takes the first attempts; multi-shot the second, first and second, in this order."""
    found = evaluate(FIELDS, 0.01, np.random.default_rng(0))
    assert (found.units, found.fields) == (2, 3)
    shot = {name: (one.attack.value, one.baseline.value) for name, one in found.one_shot.scores.items()}
    assert shot["PR"] == pytest.approx((1 / 3, 1 / 3))
    assert shot["HD"] == pytest.approx(((0.5 + 0 + 1) / 3, (1 + 0 + 1) / 3))
    many = found.multi_shot["perplexity ratio"]
    assert many.attack.attempts.tolist() == [1, 0, 1]
    assert many.attack.order.tolist() == [0, 1, 2]
    assert many.attack.scores == pytest.approx([2.9, 1.9, 0.9])
    assert many.attack.acc_at == pytest.approx([1, 1, 2 / 3])
    assert many.attack.ham_at == pytest.approx([0, 0, 1 / 3])
    # The baseline keeps its likeliest: half of the first field, all of the second, nothing of the third.
    assert many.baseline.attempts.tolist() == [1, 0, 0]
    assert many.baseline.order.tolist() == [0, 1, 2]
    scores = {name: (one.attack.value, one.baseline.value) for name, one in many.scores.items()}
    assert scores["AccAUC"] == pytest.approx(((1 + 1 + 2 / 3) / 3, (0 + 1 / 2 + 1 / 3) / 3))
    assert scores["HamAAC"] == pytest.approx((1 - (0 + 0 + 1 / 3) / 3, 1 - (1 / 2 + 1 / 4 + 1 / 2) / 3))
    assert scores["AccAt 1 %"] == scores["AccAt 5 %"] == (1, 0)
    assert scores["AccAt 100 %"] == pytest.approx((2 / 3, 1 / 3))
    assert many.scores["AccAUC"].difference.value == pytest.approx(8 / 9 - 5 / 18)
    assert many.first["PR"].value == pytest.approx(1 - 2 / 3)
    assert many.first["Hamming similarity"].value == pytest.approx(1 - 2 / 3)


def test_improvement_factor_is_of_the_means() -> None:
    found = evaluate(FIELDS, 0.02, np.random.default_rng(0)).one_shot
    attack, baseline = found.attack.mean(axis=0), found.baseline.mean(axis=0)
    assert found.attack.shape == (3, 4)
    assert found.improvement.value == pytest.approx(float(measures.improvement_factor(attack, baseline, 0.02)))


def test_a_baseline_without_a_hit_is_no_exact_zero() -> None:
    """Of 40 units without a hit, the share is 0.3 % in the middle of its posterior, and 6 % at its upper end."""
    fields = [
        field(f"form {at}", RIGHT, [guess(RIGHT if at % 2 else HALF)], [guess(WRONG)])
        for at in range(40)
        for _ in range(5)
    ]
    factor = evaluate(fields, 0.01, np.random.default_rng(0)).one_shot.improvement
    every = [evaluate(some, 0.01, np.random.default_rng(0)).one_shot.improvement for some in (fields, fields[::5])]
    assert every[0].low == pytest.approx(every[1].low)  # five fields of a unit say no more than one
    upper = float(beta.ppf(0.975, 0.5, 40.5))
    assert 4 * (factor.value - factor.low) == pytest.approx(0.51 / 0.01 - 0.51 / (upper + 0.01), rel=0.1)


def random_fields(rng: np.random.Generator, documents: int, right: float, each: int = 3) -> list[Attacked]:
    def tokens() -> tuple[int, ...]:
        return RIGHT if rng.random() < right else HALF if rng.random() < 0.5 else WRONG

    return [
        field(
            f"form {number % documents}",
            RIGHT,
            *([guess(tokens(), *-rng.integers(1, 5, size=2)) for _ in range(2)] for _ in range(2)),  # type: ignore[arg-type]
        )
        for number in range(documents * each)
    ]


def test_resamples_against_writing_the_drawn_documents_out() -> None:
    fields = random_fields(np.random.default_rng(1), 24, 0.4)
    found = evaluate(fields, 0.01, np.random.default_rng(5), resamples=20)
    names = sorted({one.unit for one in fields})
    drawn = bootstrap_weights(np.zeros(len(names), dtype=bool), np.random.default_rng(5), 20)
    many = found.multi_shot["raw and ratio"]
    for number, weights in enumerate(drawn):
        rows = [at for name, times in zip(names, weights, strict=True) for _ in range(int(times))
                for at, one in enumerate(fields) if one.unit == name]  # fmt: skip
        assert found.one_shot.scores["LD"].attack.samples[number] == pytest.approx(
            found.one_shot.attack[rows, 2].mean()
        )
        factor = measures.improvement_factor(
            found.one_shot.attack[rows].mean(axis=0), found.one_shot.baseline[rows].mean(axis=0), 0.01
        )
        assert found.one_shot.improvement.samples[number] == pytest.approx(float(factor))
        for pick, side in ((many.attack, "attack"), (many.baseline, "baseline")):
            scores = pick.scores[rows].tolist()
            right, wrong = (pick.values[rows, column].tolist() for column in (0, 1))
            sampled = {name: getattr(one, side).samples[number] for name, one in many.scores.items()}
            assert sampled["AccAUC"] == pytest.approx(oracle.area(right, scores))
            assert sampled["HamAAC"] == pytest.approx(1 - oracle.area(wrong, scores))
            assert sampled["AccAt 5 %"] == pytest.approx(float(oracle.at(right, scores, -(-len(rows) // 20))))
        tenth = -(-len(rows) // 10)
        right, scores = many.attack.values[rows, 0].tolist(), many.attack.scores[rows].tolist()
        gain = oracle.at(right, scores, tenth) - oracle.at(right, scores, len(rows))
        assert many.first["PR"].samples[number] == pytest.approx(float(gain))


def test_many_fields_are_resampled_in_parts_and_fast() -> None:
    """The parts change nothing; 3,000 fields take seconds, not minutes."""
    rng = np.random.default_rng(2)
    documents = [str(number) for number in rng.integers(0, 500, size=3000)]
    values = rng.random(3000)
    drawn = Resampled(documents, np.random.default_rng(3))
    value, samples = drawn.statistic(lambda weights: (weights @ values / weights.sum(axis=1))[:, None])
    assert value[0] == pytest.approx(values.mean())
    assert samples.shape == (2000, 1)
    assert samples.std() == pytest.approx(values.std() / 3000**0.5, rel=0.15)


def test_equal_reconstructions_cannot_be_told_apart() -> None:
    fields = [field(f"form {at}", RIGHT, [guess(HALF)], [guess(HALF)]) for at in range(5)]
    found = evaluate(fields, 0.01, np.random.default_rng(0))
    assert found.one_shot.improvement.low < found.one_shot.improvement.value == 1.0 < found.one_shot.improvement.high
    assert found.one_shot.tokens.low == found.one_shot.tokens.high == 0.0
    assert found.one_shot.scores["HD"].difference.value == 0.0
    many = found.multi_shot["raw perplexity"]
    assert (many.first["PR"].low, many.first["PR"].high) == (0.0, 0.0)


def test_no_hit_among_few_documents_is_not_certainty() -> None:
    """Of 30 documents without a hit, the exact binomial bound is about one in ten."""
    fields = [field(f"form {at}", RIGHT, [guess(WRONG)], [guess(WRONG)]) for at in range(30)]
    found = evaluate(fields, 0.01, np.random.default_rng(0))
    perfect = found.one_shot.scores["PR"]
    assert (perfect.attack.value, perfect.attack.low) == (0.0, 0.0)
    assert perfect.attack.high == pytest.approx(1 - 0.025 ** (1 / 30), abs=0.02)
    assert perfect.difference.low < 0 < perfect.difference.high
    assert found.multi_shot["raw perplexity"].scores["AccAt 1 %"].attack.high > 0.9
    every = [field(f"form {at}", RIGHT, [guess(RIGHT)], [guess(WRONG)]) for at in range(30)]
    perfect = evaluate(every, 0.01, np.random.default_rng(0)).one_shot.scores["PR"]
    assert (perfect.attack.high, perfect.difference.value, perfect.difference.high) == (1.0, 1.0, 1.0)
    assert 0.8 < perfect.attack.low < 0.95


def test_there_must_be_a_field() -> None:
    with pytest.raises(ValueError, match="no field"):
        evaluate([], 0.01, np.random.default_rng(0))
