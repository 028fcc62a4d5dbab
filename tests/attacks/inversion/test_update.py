"""What the numbers of an update show, and what comes back of updates as clients send them."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from pfl_audit.attacks.inversion.analytic.limits import Cause, Limit, restated
from pfl_audit.attacks.inversion.analytic.signs import tokens_by_direction
from pfl_audit.attacks.inversion.update.decay import without_decay
from pfl_audit.attacks.inversion.update.multiples import levels_of_steps
from pfl_audit.attacks.inversion.update.traits import Traits, traits_of
from tests.attacks.inversion import updates
from tests.oracles.inversion_updates import decayed, different_numbers, nearest_row


def matrices(seed: int = 0) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(40, 64, generator=generator) ** 3 for name in ("query.weight", "key.weight")}


def test_a_gradient_as_it_is_shows_nothing() -> None:
    assert traits_of(matrices()) == Traits()
    assert traits_of(updates.noisy(matrices(), 0.1)) == Traits()
    assert traits_of({}) == Traits()


@pytest.mark.parametrize(
    ("sent", "seen"),
    [
        (lambda given: updates.rounded(given, torch.bfloat16), Traits(rounded="bfloat16")),
        (lambda given: updates.rounded(given, torch.float16), Traits(rounded="float16")),
        (lambda given: {name: part.sign() * 1e-4 for name, part in given.items()}, Traits(signs=True)),
    ],
)
def test_what_was_done_is_seen(sent: Callable[[dict[str, Tensor]], dict[str, Tensor]], seen: Traits) -> None:
    assert traits_of(sent(matrices())) == seen


@pytest.mark.parametrize("kept", [0.01, 0.1, 0.5])
def test_sparse_updates_are_told_by_their_zeros(kept: float) -> None:
    found = traits_of(updates.sparse(matrices(), kept))
    assert found.kept == pytest.approx(kept, abs=1e-3)
    assert found.levels is None


@pytest.mark.parametrize("levels", [1, 7, 15])
def test_quantised_updates_are_recognised_by_their_levels(levels: int) -> None:
    sent = updates.integers(matrices(), levels, seed=3)
    found = traits_of(sent)
    assert found.levels == max(different_numbers(part.tolist()) for part in sent.values()) <= 2 * levels + 1


def halves(rank: int = 6, seed: int = 0) -> dict[str, Tensor]:
    """Gradients of low-rank adapters, whose matrices have few rows or columns."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {"lora_A": (rank, 192), "lora_B": (192, rank)}
    return {
        f"{layer}.{half}.weight": 1e-3 * torch.randn(shape, generator=generator) ** 3
        for layer in ("q", "v")
        for half, shape in shapes.items()
    }


CODECS: dict[str, Callable[[dict[str, Tensor]], dict[str, Tensor]]] = {
    "int8 a row": lambda given: updates.integers(given, by_row=True),
    "int8 a row, by chance up or down": lambda given: updates.integers(given, by_row=True, seed=1),
    "int8 a tensor": updates.integers,
    "4 bits a row": lambda given: updates.integers(given, 7, by_row=True),
    "4 bits a tensor, by chance up or down": lambda given: updates.integers(given, 7, seed=1),
    "NF4": updates.nf4,
    "int8 a block of 64": lambda given: {
        name: next(iter(updates.integers({name: part.reshape(-1, 64)}, by_row=True).values())).reshape(part.shape)
        for name, part in given.items()
    },
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rank", [1, 2, 6, 16])
@pytest.mark.parametrize("codec", CODECS)
def test_quantised_adapters_are_recognised(codec: str, rank: int, seed: int) -> None:
    found = traits_of(CODECS[codec](halves(rank, seed)))
    assert found.levels is not None
    assert not found.rounded
    assert not found.signs


@pytest.mark.parametrize("levels", [7, 127])
def test_levels_of_short_rows_are_those_of_their_steps(levels: int) -> None:
    assert traits_of(updates.integers(halves(), levels, by_row=True)).levels == 2 * levels + 1


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rank", [1, 2, 6, 16])
def test_adapters_in_single_precision_are_not_quantised(rank: int, seed: int) -> None:
    plain = halves(rank, seed)
    generator = torch.Generator().manual_seed(seed)
    whole = updates.integers(plain, 20, by_row=True)
    near = {name: part + 1e-8 * torch.randn(part.shape, generator=generator) for name, part in whole.items()}
    begun = {name: 0.05 * torch.randn(part.shape, generator=generator) for name, part in plain.items()}
    # A difference of weights is a multiple of their rounding, a power of two.
    moved = {name: (part + 1e-3 * plain[name]) - part for name, part in begun.items()}
    for kind, given in {"plain": plain, "near": near, "moved": moved, "sum": updates.added([whole, plain])}.items():
        assert (kind, traits_of(given)) == (kind, Traits())


@pytest.mark.parametrize(("step", "levels"), [(3 * 2.0**-30, 255), (0.1, 255), (2.0**-30, None), (1.0, None)])
def test_powers_of_two_are_the_rounding_of_weights_and_no_codec(step: float, levels: int | None) -> None:
    whole = torch.randint(-127, 128, (4, 6, 100), generator=torch.Generator().manual_seed(0))
    whole[:, :, 20] = 127
    assert levels_of_steps(list(whole.float() * step)) == levels
    assert levels_of_steps(list(whole.float() * step + 1e-3 * step * torch.rand(whole.shape))) is None
    assert levels_of_steps([]) is None


def test_most_matrices_must_be_quantised() -> None:
    plain, coded = halves(), updates.integers(halves(), by_row=True)
    mixed = {name: coded[name] if name.startswith("q.lora_A") else part for name, part in plain.items()}
    assert traits_of(mixed) == Traits()


def test_tables_that_are_looked_up_do_not_count() -> None:
    table = torch.zeros(500, 64)
    table[3] = 1.0
    given = matrices() | {"model.word_embeddings.weight": table}
    assert traits_of(given, ["word_embeddings.weight"]) == Traits()


def test_limits_have_their_true_cause() -> None:
    crowded, mixed = Limit(Cause.CROWDED, "tokens: 3 of 4 unsure"), Limit(Cause.MIXED, "boxes: of a batch")
    (one, other) = restated([crowded, mixed], Traits(levels=15))
    assert (one.cause, other.cause) == (Cause.QUANTISED, Cause.QUANTISED)
    assert one.words == "tokens: the update is quantised: 15 different numbers in a row at most"
    (one, other) = restated([crowded, mixed], Traits(rounded="bfloat16"))
    assert (one.cause, other) == (Cause.ROUNDED, mixed)
    assert restated([crowded, mixed], Traits()) == (crowded, mixed)


def test_directions_are_those_of_plain_cosines() -> None:
    rng = np.random.default_rng(0)
    rows, places = rng.normal(size=(7, 5)), rng.normal(size=(9, 5))
    found = tokens_by_direction(rows, np.arange(10, 17), places)
    assert found.values[:, 0].tolist() == [10 + nearest_row(rows.tolist(), place) for place in places.tolist()]
    assert tokens_by_direction(rows[:0], np.arange(0), places).values[:, 0].tolist() == [-1] * 9


@pytest.mark.parametrize("rate", [1e-5, 1e-4, 1e-3])
@pytest.mark.parametrize("steps", [1, 20])
def test_weight_decay_is_found_and_taken_out(rate: float, steps: int) -> None:
    """Nine rows of ten moved by decay alone, up to the rounding of the weights."""
    generator = torch.Generator().manual_seed(0)
    weights = {"words": 0.02 * torch.randn(200, 32, generator=generator), "other": torch.ones(3)}
    after = {name: part.clone() for name, part in weights.items()}
    signs = torch.randn(20, 32, generator=generator).sign()
    for _ in range(steps):
        for part in after.values():
            part.sub_(rate * 0.01 * part)
        after["words"][:20] -= rate * signs
    change = {name: after[name] - part for name, part in weights.items()}
    found = without_decay(change, weights, ("words",))
    assert found.share == pytest.approx(-decayed(1.0, rate, 0.01, steps), rel=0.2)
    assert found.update["words"].any(dim=1).nonzero()[:, 0].tolist() == list(range(20))
    assert torch.nn.functional.cosine_similarity(found.update["words"][:20], -signs).min() > 0.99


def test_an_update_without_decay_stays_as_it_is() -> None:
    weights = {"words": torch.randn(200, 32, generator=torch.Generator().manual_seed(0))}
    table = torch.zeros(200, 32)
    table[:20] = 1.0
    for given in (table, table + 1e-3 * torch.randn(200, 32, generator=torch.Generator().manual_seed(1))):
        found = without_decay({"words": given}, weights, ("words",))
        assert found.share == 0.0
        assert torch.equal(found.update["words"], given)
    assert without_decay({"other": table}, weights, ("words",)).share == 0.0


def test_matrices_that_begin_with_rows_of_zeros_are_looked_at() -> None:
    """As a sparse update may, or a layer of which a part is frozen."""
    whole = {name: part.repeat(5, 1) for name, part in matrices().items()}
    behind = {name: torch.cat([torch.zeros(1 << 13, 64), part]) for name, part in whole.items()}
    assert traits_of(behind) == Traits(kept=200 / (200 + (1 << 13)))
    signs = {name: torch.cat([torch.zeros(20, 1 << 19), torch.randn(16, 1 << 19)]) for name in ("query.weight",)}
    assert not traits_of(signs).signs
