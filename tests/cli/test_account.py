import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli.main import run
from tests.privacy.test_guarantee import CLAIM
from tests.privacy.training_records import record_of

PUBLISHED = ["--client-rate", "0.2", "--provider-rate", "1", "--steps", "10", "--delta", "1e-5"]
ALONE = ["--sampling-rate", "0.2", "--steps", "10", "--delta", "1e-5"]


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run(["account", *arguments, "--json", "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return json.loads(out)


def test_epsilon_of_a_noise_by_both_accountings(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, *PUBLISHED, "--sigma", "0.771484375")
    assert found["epsilon"] == found["valid"]["epsilon"] == pytest.approx(14.46, abs=0.005)
    assert found["prv"] == pytest.approx(14.46, abs=0.005)
    assert found["renyi"] == pytest.approx(16.28, abs=0.005)
    assert 7.99 < found["published"]["epsilon"] <= 8
    assert "not a guarantee" in found["published"]["note"]
    assert (found["sigma"], found["accountant"], found["accounting"]) == (0.771484375, "pld", "valid")


def test_noise_for_an_epsilon(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "--sampling-rate", str(1000 / 4145), "--steps", "10", "--delta", "1e-5", "--epsilon", "8")
    assert found["sigma"] < 0.83251953125  # PRV's
    assert 7.992 <= found["epsilon"] <= 8
    assert found["target"] == 8


def test_published_accounting_gives_the_published_noise(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, *PUBLISHED, "--epsilon", "8", "--accounting", "published")
    assert found["sigma"] == 0.771484375
    assert found["epsilon"] == found["published"]["epsilon"] < found["valid"]["epsilon"]


def test_one_accountant_may_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, *ALONE, "--epsilon", "8", "--accountant", "renyi")
    assert (found["sigma"], found["accountant"]) == (0.83251953125, "renyi")
    assert found["epsilon"] == found["renyi"]


def test_two_lines_say_why_valid_is_not_published(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["account", *PUBLISHED, "--sigma", "0.771484375"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (valid,) = [line for line in lines if line.startswith("valid:")]
    (published,) = [line for line in lines if line.startswith("published:")]
    assert "14.46" in valid
    assert "which clients participated" in valid
    assert "7.994" in published
    assert "not a guarantee" in published


def test_nothing_is_explained_where_nothing_differs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["account", *ALONE, "--sigma", "1"]) == 0
    assert "published" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("sigma", "published", "valid"),
    [("1.145", "1.0057", "6.075"), ("0.637", "3.9959", "18.58"), ("0.468", "8.0039", "33.03")],
)
def test_groups_of_a_fixed_size_have_the_published_figure_beside_what_it_is_worth(
    sigma: str, published: str, valid: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """FL-GROUP-DP: 2 of 10 clients and 50 of 400 providers in 5 rounds, by the Rényi orders of the kit."""
    words = ["--fixed-size", "--client-rate", "0.2", "--provider-rate", "0.125", "--steps", "5", "--delta", "1e-5"]
    assert run(["account", *words, "--sigma", sigma]) == 0
    lines = capsys.readouterr().out.splitlines()
    (said,) = [line for line in lines if line.startswith("published:")]
    assert said.startswith(f"published: epsilon {published}, by the Rényi orders of the competition's kit.")
    assert said.endswith("0.2 x 0.125 = 0.025; not a guarantee.")
    (said,) = [line for line in lines if line.startswith("valid:")]
    assert said.startswith(f"valid:     epsilon {valid}. A provider of a group of a fixed size is replaced")
    assert run(["account", *words, "--sigma", sigma, "--accounting", "published"]) == 0
    assert "by Rényi, the figure of the papers, not a guarantee" in capsys.readouterr().out


def test_published_is_labelled_where_it_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    run(["account", *PUBLISHED, "--sigma", "0.771484375", "--accounting", "published"])
    (epsilon,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("epsilon")]
    assert "not a guarantee if clients are sampled" in epsilon


def test_groups_of_a_fixed_size(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, *ALONE, "--sigma", "2", "--fixed-size")
    assert (found["adjacency"], found["prv"], found["accountant"]) == ("replace", None, "pld")
    assert found["epsilon"] > as_json(capsys, *ALONE, "--sigma", "2")["epsilon"]
    assert run(["account", *ALONE, "--sigma", "2", "--fixed-size"]) == 0
    assert "replace one" in capsys.readouterr().out
    by = as_json(capsys, *ALONE, "--sigma", "2", "--fixed-size", "--accountant", "renyi")
    assert by["epsilon"] == found["renyi"] > found["epsilon"]
    assert run(["account", *ALONE, "--sigma", "2", "--fixed-size", "--accountant", "prv"]) == 4
    assert "the accountant prv covers Poisson sampling only" in capsys.readouterr().err


def test_a_prior_gives_the_largest_chance_of_reconstruction(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, *ALONE, "--epsilon", "8", "--prior", "0.001")["reconstruction"]
    assert found["prior"] == 0.001
    assert found["largest"] == pytest.approx(0.036, abs=0.001)
    assert found["by_epsilon_alone"] == 1.0
    assert "reconstruction" not in as_json(capsys, *ALONE, "--epsilon", "8")


def test_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    (warning,) = as_json(capsys, *ALONE, "--sigma", "1", "--providers", "100000")["warnings"]
    assert "1/n" in warning
    assert as_json(capsys, *ALONE, "--sigma", "1", "--providers", "99999")["warnings"] == []


def test_where_prv_fails_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    hard = ["account", "--sampling-rate", "0.2", "--steps", "500", "--delta", "1e-5", "--sigma", "0.7"]
    assert run(hard) == 0
    out = capsys.readouterr().out
    assert "PRV       none" in out
    assert "epsilon   77.72 at delta 1e-05 by PLD" in out
    assert run([*hard, "--accountant", "prv"]) == 2
    assert "PRV fails numerically" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--sampling-rate"),
        (["--sampling-rate", "0.2", "--client-rate", "0.2"], "either --sampling-rate"),
        (["--sampling-rate", "2", "--steps", "1"], "sampling rate is 2"),
        (["--sampling-rate", "nan", "--steps", "1"], "sampling rate is nan"),
        (["--sampling-rate", "0.2"], "--steps is missing"),
        (["--sampling-rate", "0.2", "--steps", "0"], "0 rounds"),
        (["--sampling-rate", "0.2", "--steps", "10"], "--delta is missing"),
        (ALONE, "one of --epsilon and --sigma"),
        ([*ALONE, "--epsilon", "8", "--sigma", "1"], "one of --epsilon and --sigma"),
        ([*ALONE, "--sigma", "0"], "noise multiplier is 0"),
        ([*ALONE, "--sigma", "inf"], "noise multiplier is inf"),
        ([*ALONE, "--epsilon", "-1"], "target epsilon is -1"),
        (["--sampling-rate", "0.2", "--steps", "10", "--delta", "1", "--sigma", "1"], "delta is 1"),
        (
            ["--sampling-rate", "1", "--steps", "10000000", "--delta", "1e-12", "--epsilon", "1e-5", "-q"],
            "1e-05 cannot be",
        ),
        ([*ALONE, "--sigma", "1", "--accounting", "hopeful"], "--accounting"),
        ([*ALONE, "--review", "x"], "with --review, which takes everything from the record"),
        (["--review", "x", "--fixed-size"], "--fixed-size means nothing with --review"),
    ],
)
def test_bad_input_is_one_line(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["account", *arguments]) == 4
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len([line for line in err.strip().splitlines() if line.startswith("pfl-audit: ")]) == 1


def test_a_claim_is_reviewed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "training.json").write_text(json.dumps({"mode": "fl-dp", **record_of(CLAIM)}))
    assert run(["account", "--review", str(tmp_path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["worth"] == "weaker"
    assert run(["account", "--review", str(tmp_path / "training.json")]) == 1
    out = capsys.readouterr().out
    assert "stated    epsilon 8 at delta 1e-05" in out
    assert "review    published accounting: effective epsilon 14.46" in out


@pytest.mark.parametrize(
    ("changes", "code", "said"),
    [
        ({}, 0, "as stated: epsilon 8.00 for the 30 rounds that were run"),
        ({"rounds": 300}, 1, "the record contradicts itself: 'rounds' is 300, and 30 by its mechanism"),
        ({"identity": None}, 3, "cannot be confirmed: its mechanism is not stated"),
    ],
)
def test_a_record_is_compared_with_its_mechanism(
    changes: dict[str, Any], code: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = json.loads((Path(__file__).parents[2] / "fixtures/vt5-private/training.json").read_text())
    (tmp_path / "training.json").write_text(json.dumps(record | changes))
    assert run(["account", "--review", str(tmp_path)]) == code
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (None, 2, "has no training.json"),
        ('{"privacy": "none: trained without differential privacy"}', 3, "states no differential privacy"),
        ("{}", 3, "states no differential privacy"),
    ],
)
def test_no_claim_is_one_line(
    text: str | None, code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "training.json").write_text(text)
    assert run(["account", "--review", str(tmp_path)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000])
def test_a_file_that_is_no_record_is_an_error(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "training.json").write_text(text)
    assert run(["account", "--review", str(tmp_path)]) == 2
    assert "training.json cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("privacy", ['{"epsilon": NaN}', '{"epsilon": 1}', "[1]", "8"])
def test_a_broken_claim_cannot_be_read(privacy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "training.json").write_text(f'{{"privacy": {privacy}}}')
    assert run(["account", "--review", str(tmp_path)]) == 3
    assert "review    cannot be read" in capsys.readouterr().out


def test_terminals_obey_nothing_in_a_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = {**CLAIM, "unit": "\x1b[31mprovider", "accountant": "a\nb\u202e"}
    (tmp_path / "training.json").write_text(json.dumps({"privacy": hostile}))
    assert run(["account", "--review", str(tmp_path)]) == 3
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_settings_come_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.toml").write_text(
        "quiet = true\nsampling-rate = 0.2\nsteps = 10\n[account]\ndelta = 1e-5\nsigma = 1.0\n"
    )
    assert as_json(capsys, "--config", str(tmp_path / "a.toml"))["sampling"]["rounds"] == 10


def test_help_has_an_example_and_imports_nothing_heavy(capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "import sys\nfrom pfl_audit.cli.main import run\nrun(['account', '--help'])\n"
        "print('HEAVY', sorted({'torch', 'numpy', 'scipy', 'prv_accountant'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "HEAVY []" in done.stdout
    assert "Example: pfl-audit account" in " ".join(done.stdout.split())


@pytest.mark.slow
def test_accounting_needs_no_torch() -> None:
    script = (
        "import sys\nfrom pfl_audit.cli.main import run\n"
        "run(['account', '--sampling-rate', '0.2', '--steps', '10', '--delta', '1e-5', '--sigma', '1'])\n"
        "print('TORCH', 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "TORCH False" in done.stdout
