"""DP-FTRL: providers in a fixed schedule, and noise that is correlated over rounds by a banded matrix."""

import json
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from pfl_audit.cli.main import run
from pfl_audit.errors import UsageError
from pfl_audit.privacy.ledger import Ledger
from pfl_audit.privacy.mechanism import ADJACENCY, ZEROED, Mechanism
from pfl_audit.privacy.review import review_record
from pfl_audit.privacy.sampling import MOST_BANDS
from pfl_audit.progress import Silent
from pfl_audit.training.federated import server
from pfl_audit.training.federated.canaries.report import CanaryReport, family_of, report_on
from pfl_audit.training.federated.canaries.run import observe
from pfl_audit.training.federated.clients import Client
from pfl_audit.training.federated.gaussian_mechanism import GaussianNoise
from pfl_audit.training.federated.kept import kept_path, messages_of
from pfl_audit.training.federated.plan import plan_privacy
from pfl_audit.training.federated.secure_rng import SecretStream, new_key
from pfl_audit.training.federated.worker import ClientPrivacy, Worker
from tests.privacy.test_correlation import matrix, scheduled
from tests.training.federated.canary_runs import SCHEDULE as CLAIM
from tests.training.federated.canary_runs import manifest
from tests.training.federated.conftest import PRIVATE, QUICK, Federate
from tests.training.federated.test_refusals import Cut2

SCHEDULE = replace(PRIVATE, sampling="schedule", separation=2, noise_seed=None)
FIVE = replace(QUICK, rounds=5)
FAMILY = cache(family_of(CLAIM))


def noise_of(mechanism: Mechanism, seed: int = 3) -> GaussianNoise:
    return GaussianNoise(0.7, 2.0, SecretStream(new_key(seed)), mechanism.correlation)


def test_noise_is_the_inverse_of_the_matrix_times_independent_numbers() -> None:
    mechanism = scheduled(9, 4)
    noise = noise_of(mechanism)
    shares = torch.stack([noise.share(300, number, 1, 4) for number in range(1, 10)]).double().numpy()
    numbers = np.stack([noise.stream.normal(300, "noise", number, 1) for number in range(1, 10)])
    np.testing.assert_allclose(matrix(mechanism) @ shares, 0.7 * 2.0 / 2 * numbers, atol=1e-5)


def test_noise_of_one_band_is_that_without_correlation() -> None:
    alone = GaussianNoise(0.7, 2.0, SecretStream(new_key(3)))
    assert all(
        torch.equal(noise_of(scheduled(9, 4, 1)).share(50, number, 1, 4), alone.share(50, number, 1, 4))
        for number in range(1, 10)
    )


def test_a_process_that_goes_on_draws_the_same_noise() -> None:
    """From any round, also one that is repeated, and each client by itself."""
    mechanism = scheduled(9, 4)
    whole = noise_of(mechanism)
    shares = {(number, client): whole.share(50, number, client, 2) for number in range(1, 10) for client in (0, 1)}
    for first in range(1, 10):
        later = noise_of(mechanism)
        for number in (first, *range(first, 10)):
            for client in (1, 0):
                assert torch.equal(later.share(50, number, client, 2), shares[number, client])


def worker_of(separation: int, tags: tuple[int, ...], number: int = 0) -> Worker:
    settings = replace(PRIVATE, sampling="schedule", separation=separation)
    stream = SecretStream(new_key(5))
    private = ClientPrivacy(settings, GaussianNoise(1.0, 1.0, stream), stream)
    return Worker(Client(number, tuple((row,) for row in range(len(tags))), tags), None, private)  # type: ignore[arg-type]


def test_turns_of_a_provider_are_as_many_rounds_apart_as_stated() -> None:
    tags = tuple(range(100, 400))
    drawn = [worker_of(4, tags).drawn(number) for number in range(1, 13)]
    taken = [[number for number, some in enumerate(drawn) if at in some] for at in range(len(tags))]
    assert all(np.diff(rounds).tolist() == [4, 4] for rounds in taken)
    assert max(map(len, drawn)) < 110  # 75 are expected
    others = [worker_of(4, tags[10:]).drawn(number) for number in range(1, 13)]
    assert [[at - 10 for at in some if at >= 10] for some in drawn] == others
    assert drawn != [worker_of(4, tags, 1).drawn(number) for number in range(1, 13)]


def test_a_run_states_the_schedule_and_forged_records_do_not_hold(federate: Federate) -> None:
    record = federate("out", "fl-dp", SCHEDULE, FIVE, keep_updates=True)
    claim, mechanism = record["privacy"], Mechanism.model_validate(record["privacy"]["mechanism"])
    assert (claim["adjacency"], claim["rounds"], claim["denominator"]) == (ZEROED, 5, 6)
    assert claim["epsilon"] == scheduled(5, 2, sigma=0.8).spent(1e-5).epsilon == claim["composed"]["epsilon"]
    assert mechanism.sampling.rounds == 3
    assert 2 * sum(record["updates"].values()) > 3 * 8  # of 12 providers, about half in each of 5 rounds
    kept = list(messages_of(kept_path(federate.folder / "out")))
    wanted = 0.8 * 0.1 / np.sqrt(3) * mechanism.correlation.deviations
    assert [one.origin.noise for one in kept] == pytest.approx(wanted.repeat(3).tolist())

    def worth(**changes: Any) -> str:
        forged = deepcopy(record)
        for place, value in changes.items():
            *path, last = place.split("__")
            inside: Any = forged
            for name in path:
                inside = inside[int(name) if name.isdecimal() else name]
            inside[last] = value
        review = review_record(forged)
        assert review is not None
        return review.worth

    assert worth() == "holds"
    places = "privacy__mechanism__phases__0__parts__2__strategy", "privacy__mechanism__draw__separation"
    assert worth(**{places[0]: [1.0, 0.2]}) == "holds"  # another matrix of two bands is as private
    assert {
        worth(privacy__epsilon=0.9 * claim["epsilon"], privacy__composed=None),
        worth(privacy__adjacency=ADJACENCY),
        worth(privacy__sampling__separation=5),
        worth(privacy__sampling__separation=None),
        worth(identity__privacy__separation=5),
        worth(identity__privacy__bands=1),
        worth(identity__privacy__sampling="providers"),
        worth(identity__settings__rounds=9),
        worth(**{places[0]: [1.0]}),
        worth(**{places[0]: [1.0, 0.5, 0.5]}),
        worth(**{places[1]: 5}),
        worth(**{places[1]: 1}),
    }.isdisjoint({"holds"})


@pytest.mark.slow
def test_a_run_that_was_cut_ends_with_the_same_weights(federate: Federate, monkeypatch: pytest.MonkeyPatch) -> None:
    seeded = replace(SCHEDULE, separation=3, noise_seed=4)
    monkeypatch.setattr(server, "_SAVE_SECONDS", -1.0)
    federate("whole", "fl-dp", seeded, FIVE)
    with pytest.raises(KeyboardInterrupt):
        federate("cut", "fl-dp", seeded, FIVE, progress=Cut2())
    federate("cut", "fl-dp", seeded, FIVE)
    whole, cut = federate.weights("whole"), federate.weights("cut")
    assert all(bool((whole[name] == cut[name]).all()) for name in whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "settings", "changes"),
    [
        ("central-dp", FIVE, {}),
        ("fl-dp", FIVE, {"lora": 2}),
        ("fl-dp", replace(FIVE, codec="nf4", strategy="fedadam"), {"lora": 2, "noise": "message"}),
        ("fl-dp", replace(FIVE, client_memory="clgecl"), {"lora": 2}),
    ],
    ids=["central", "adapters", "messages", "dual"],
)
def test_schedules_go_with_other_parts(federate: Federate, mode: str, settings: Any, changes: dict[str, Any]) -> None:
    noise = changes.pop("noise", "sum")
    record = federate("out", mode, replace(SCHEDULE, noise=noise), settings, **changes)
    review = review_record(record)
    assert review is not None
    assert review.worth == "holds"


def test_a_ledger_holds_schedules_alone(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.json")
    cost, other = (plan_privacy("fl-dp", one, FIVE, 3).mechanism.cost(1e-5) for one in (SCHEDULE, PRIVATE))
    ledger.reserve("first", ["Acme"], cost)
    assert ledger.agrees("first", cost)
    with pytest.raises(UsageError, match="holds runs of another adjacency"):
        ledger.reserve("second", ["Acme"], other)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"separation": None}, "a schedule needs the rounds between two participations"),
        ({"accounting": "published"}, "and has no published figure"),
        ({"bands": 3}, "noise of 3 bands needs a schedule with participations at least 3 rounds apart"),
        ({"public_providers": None}, "needs a public number to divide its sums by"),
    ],
)
def test_settings_of_a_schedule_that_cannot_be(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        plan_privacy("fl-dp", replace(SCHEDULE, **change), FIVE, 3)


def audit(mechanism: Mechanism, seed: int = 1, canaries: int = 1000) -> CanaryReport:
    """A run of the trainer with canaries, in clients of the mechanism."""
    claim = CLAIM.model_copy(update={"noise": mechanism.noise.carrier})
    drawn = manifest(seed, canaries, canaries // 20)
    with TemporaryDirectory() as folder:
        seen = observe(claim, mechanism, drawn, mechanism.sum.clients, Path(folder), Silent(), noise_seed=seed)
    return report_on(claim, drawn, seen, FAMILY)


@pytest.mark.parametrize(
    "given",
    [{}, {"bands": 2}, {"noise": "message", "codec": "nf4", "strategy": "fedadam"}, {"client_memory": "clgecl"}],
    ids=["shares", "two bands", "rounded messages", "dual"],
)
def test_the_correct_trainer_of_a_schedule_is_not_contradicted(given: dict[str, Any]) -> None:
    report = audit(mechanism_with(**given))
    assert report.contradictions == ()
    assert report.accuracy == pytest.approx(0.760, abs=0.04)  # a Gaussian mechanism of two rounds, sigma 1
    for name, value in (
        ("noise_multiplier", 1.0),
        ("sampling_rate", 1.0),
        ("clip", 1.0),
        ("correlation", 0.0),
        ("draws", 0.0),
    ):
        found = getattr(report.estimates, name)
        assert found.low < value < found.high < value + 0.35


def mechanism_with(bands: int | None = None, noise: str = "sum", **rounds: Any) -> Mechanism:
    """Ten rounds, every fifth with a provider, sigma 1, four clients."""
    privacy = {"sampling": "schedule", "separation": 5, "bands": bands, "clip": 0.03, "accounting": "valid"}
    settings = {"rounds": 10, "optimizer": "adamw", "strategy": "fedavg", **rounds}
    return Mechanism.of("fl-dp", settings, {**privacy, "noise": noise}, 4, 1.0)


drawn_by_turns, correlated = Worker.drawn, GaussianNoise._correlated


def independent(self: GaussianNoise, correlation: Any, drawn: Tensor, number: int, client: int) -> Tensor:
    return drawn


def begun_again(self: GaussianNoise, correlation: Any, drawn: Tensor, number: int, client: int) -> Tensor:
    """The noise of a process that has forgotten the rounds before the sixth."""
    if number == 6:
        self._last[client] = 5, type(self._last[client][1])(maxlen=4)
    return correlated(self, correlation, drawn, number, client)


def twice(self: Worker, number: int) -> list[int]:
    """Every provider in the round after its turn as well."""
    return sorted({*drawn_by_turns(self, number), *(drawn_by_turns(self, number - 1) if number > 1 else ())})


def by_chance(self: Worker, number: int) -> list[int]:
    """Poisson draws at the same rate."""
    numbers = [self._privacy.stream.uniform(1, number, tag)[0] for tag in self.client.tags]  # type: ignore[union-attr]
    return np.flatnonzero(np.array(numbers) < 0.2).tolist()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("place", "name", "broken", "sentence"),
    [
        (GaussianNoise, "_correlated", independent, "the noise of two sums or messages has a correlation of"),
        (GaussianNoise, "_correlated", begun_again, "the noise of two sums or messages has a correlation of"),
        (Worker, "drawn", twice, "providers take part when it is not their turn, with 0.2"),
        (Worker, "drawn", by_chance, "providers take part when it is not their turn, with 0."),
    ],
)
def test_faults_of_a_schedule_are_contradicted(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, broken: Any, sentence: str
) -> None:
    monkeypatch.setattr(place, name, broken)
    found = audit(mechanism_with()).contradictions
    assert any(sentence in text for text in found), found


def test_canaries_run_the_matrix_of_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the search would not find."""
    written = mechanism_with().model_dump(mode="json")
    written["phases"][0]["parts"][2]["strategy"] = [1.0, -0.5, 0.0, 0.3]
    seen = list[tuple[float, ...]]()

    def noted(self: GaussianNoise, correlation: Any, *given: Any) -> Tensor:
        seen.append(correlation.strategy)
        return correlated(self, correlation, *given)

    monkeypatch.setattr(GaussianNoise, "_correlated", noted)
    assert audit(Mechanism.model_validate(written)).contradictions == ()
    assert set(seen) == {(1.0, -0.5, 0.0, 0.3)}


def test_the_command_accounts_for_a_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["account", "--steps", "10", "--delta", "1e-5", "--separation", "5"]
    assert run([*words, "--sigma", "1", "--json"]) == 0
    found, mechanism = json.loads(capsys.readouterr().out), scheduled(10, 5)
    assert found["epsilon"] == mechanism.spent(1e-5).epsilon
    assert (found["participations"], found["bands"], found["adjacency"]) == (2, 5, "zero out")
    assert found["error"] == mechanism.correlation.error
    assert run([*words, "--bands", "1", "--epsilon", "8", "-q"]) == 0
    out = capsys.readouterr().out
    assert "(zero out one), over 10 rounds, of which it takes part in 2 at most" in out
    assert "noise correlated over 1 rounds" in out
    assert run(["account", "--steps", "900", "--delta", "1e-5", "--separation", "300", "--sigma", "1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bands"] == MOST_BANDS


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        (["--bands", "6"], "noise of 6 bands needs a schedule"),
        (["--sampling-rate", "0.2"], "a schedule has no draws"),
        (["--fixed-size"], "a schedule has no draws"),
        (["--accounting", "published"], "a schedule has no draws, and no published figure"),
        (["--accountant", "prv"], "the accountant prv covers Poisson sampling only"),
        (["--sigma", "nan"], "the noise multiplier is nan"),
    ],
)
def test_the_command_refuses_what_no_schedule_has(
    more: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["account", "--steps", "10", "--delta", "1e-5", "--separation", "5", "--sigma", "1"]
    assert run([*words, *more]) == 4
    assert problem in capsys.readouterr().err
    assert run([*words[:5], "--sampling-rate", "0.2", "--sigma", "1", "--bands", "2"]) == 4
    assert "--bands has no effect without --separation" in capsys.readouterr().err
