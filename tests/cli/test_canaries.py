import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfl_audit.cli.main import run
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.training.federated.canaries import run as canary_run
from tests.privacy.training_records import record_of

CLAIM = {
    "epsilon": 7.98,
    "delta": 1e-5,
    "unit": "provider",
    "adjacency": "add or remove one provider",
    "accountant": "prv",
    "accounting": "valid",
    "noise_multiplier": 0.7715,
    "clip": 0.03,
    "rounds": 10,
    "rounds_accounted": 10,
    "sampling": {"kind": "poisson", "scheme": "providers", "client_rate": 1.0, "provider_rate": 0.2},
    "denominator": 24.0,
    "noise_generator": "cryptographic: SHAKE-256 with a secret key",
}
FEW = ("--canaries", "2000", "--clients", "2")
Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def record(**changes: Any) -> str:
        path = tmp_path / "training.json"
        path.write_text(json.dumps(record_of({**CLAIM, **changes})))
        return str(path)

    return record


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same coins and noise in every run of the tests."""
    rng = np.random.default_rng(1)
    monkeypatch.setattr("secrets.token_bytes", rng.bytes)
    monkeypatch.setattr("secrets.token_hex", lambda size: rng.bytes(size).hex())
    monkeypatch.setattr("pfl_audit.training.federated.run.new_key", lambda seed, use: bytes(32))


@pytest.mark.usefixtures("fixed")
def test_a_run_prints_its_commitment_before_and_its_coins_after(
    write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "canaries.json"
    before: list[dict[str, Any]] = []
    observe = canary_run.observe

    def look(*arguments: Any) -> canary_run.Observation:
        before.append(json.loads(out.read_text()))
        return observe(*arguments)

    monkeypatch.setattr(canary_run, "observe", look)
    assert run(["canaries", "--training", write(), *FEW, "--nonce", "verifier 7", "--out", str(out), "--json"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report == json.loads(out.read_text())
    assert printed.err.startswith(f"commitment {before[0]['commitment']}\n")
    assert set(before[0]) == {"commitment", "nonce", "canaries", "guesses"}
    assert Manifest.check(report["canaries"], before[0]["commitment"]).nonce == "verifier 7"
    assert (report["guesses"]["made"], report["contradictions"]) == (100, [])
    assert 0 < report["epsilon"]["at_least_measured"] < report["epsilon"]["at_most_stated"]
    assert run(["canaries", "--training", write(), *FEW, "--out", str(out)]) == 4
    assert "already exists" in capsys.readouterr().err


@pytest.mark.usefixtures("fixed")
def test_an_epsilon_that_is_too_small_is_a_finding(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["canaries", "--training", write(epsilon=0.2), *FEW]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "CONTRADICTION: epsilon is above the stated 0.2"
    assert [line.split()[0] for line in lines[1:]] == [
        "stated",
        "measured",
        "guesses",
        "sigma",
        "sampling",
        "clip",
        "correlation",
        "draws",
        "commitment",
    ]


@pytest.mark.parametrize(
    ("changes", "arguments", "code", "problem"),
    [
        ({}, ["--canaries", "1"], 4, "1 canaries cannot be drawn"),
        ({}, ["--guesses", "10001"], 4, "10001 guesses of 10000 canaries"),
        ({}, ["--clients", "0"], 4, "cannot be divided among 0 clients"),
        ({}, ["--nonce", "a\nb"], 4, "the nonce is not one short line"),
        ({"rounds": 10_000_000, "rounds_accounted": 10_000_000}, [], 4, "do not fit in memory"),
        ({"noise_multiplier": 1e300}, [], 3, "the noise multiplier is 1e+300"),
        ({"clip": 1e300}, ["--canaries", "20"], 2, "the noisy sums are not finite"),
        ({"forced_participation": True}, [], 3, "forces a provider into empty rounds"),
        ({"epsilon": "eight"}, [], 2, "cannot be read"),
    ],
)
def test_what_cannot_run_is_one_line(
    write: Write,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    changes: dict[str, Any],
    arguments: list[str],
    code: int,
    problem: str,
) -> None:
    assert run(["canaries", "--training", write(**changes), *arguments, "--quiet"]) == code
    assert problem in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["training.json"]


def test_a_record_without_privacy_cannot_be_audited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "training.json").write_text(json.dumps({"privacy": None}))
    assert run(["canaries", "--training", str(tmp_path)]) == 3
    assert "states no differential privacy" in capsys.readouterr().err
