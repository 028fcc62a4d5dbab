"""A package from outside brings an extension of every kind, and nothing of ours is touched."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.documents.corpus import Corpus
from tests.command_server import CommandServer

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
WARNING = "warning: the attack 'unimportable' of the package pfl-stranger is left out: ModuleNotFoundError"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def beside(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CommandServer]:
    """The command line beside the package, in processes of their own, as entry points are read at their start."""
    server = CommandServer(tmp_path_factory.mktemp("printed"), [site])
    yield server
    server.close()


@pytest.fixture
def cli(beside: CommandServer, tmp_path: Path) -> Run:
    return partial(beside.run, cwd=tmp_path)


@pytest.fixture
def red_tsv(red: Corpus, tmp_path: Path) -> Path:
    """Questions in the stranger's format."""
    folder = tmp_path / "table"
    folder.mkdir()
    lines = ["provider\tmember\tpage\twords\tquestion\tanswer"]
    for query in red.queries:
        member = "yes" if query.document.provider in red.members() else "no"
        words = " ".join(query.document.words)
        row = (query.document.provider, member, query.document.id, words, query.question, query.answers[0])
        lines.append("\t".join(part.replace("\t", " ").replace('"', "") for part in row))
    (folder / "questions.tsv").write_text("\n".join(lines))
    return folder


def results(folder: Path) -> dict[str, Any]:
    found = json.loads((folder / "results.json").read_text())
    return {check["id"]: check for check in found["checks"]}


def test_everything_is_listed_and_what_cannot_be_imported_is_named(cli: Run) -> None:
    listed = cli("list")
    assert listed.returncode == 0
    for name in ("echo.answers", "norms.shared", "lengths.fields", "raising.always", "membership.nearest"):
        assert f"\n{name} " in f"\n{listed.stdout}"
    assert listed.stderr.count(WARNING) == 1
    assert "bound: Epsilon that is printed." in cli("explain", "echo").stdout


def test_a_membership_attack_with_a_setting_over_the_strangers_corpus(
    cli: Run, red: Corpus, red_tsv: Path, make_checkpoint: Callable[[int], Path], tmp_path: Path
) -> None:
    """The format of a metric is what its maker states, and the report format is written beside ours."""
    checked = cli("data", "check", red_tsv)
    assert checked.returncode == 0, checked.stderr
    assert f" {len(red.queries)}\n" in checked.stdout
    out = tmp_path / "run"
    given = ["--model", make_checkpoint(0), "--red", red_tsv, "--check", "echo", "--out", out]
    done = cli("audit", *given, "--set", "echo.bound=3.2")
    assert done.returncode == 0, done.stderr
    metrics = {metric["name"]: metric for metric in results(out / "private")["echo.answers"]["metrics"]}
    assert metrics["epsilon lower bound"]["value"] == 3.2
    assert "epsilon lower bound about 5," in (out / "report.txt").read_text()
    assert "320" not in (out / "report.txt").read_text()
    done = cli("report", out, "-q", "--lines", tmp_path / "lines.txt")
    assert done.returncode == 0, done.stderr
    assert "echo.answers: " in (tmp_path / "lines.txt").read_text()
    (tmp_path / "audit.toml").write_text("[attacks.echo]\nbound = 4.5\n")
    done = cli("audit", *given[:-1], tmp_path / "other", "--config", tmp_path / "audit.toml")
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "other")["echo.answers"]["settings"] == {"bound": 4.5}


def test_a_provider_attack_joins_the_joint_permutation_test(
    cli: Run, corpus_folder: Path, make_checkpoint: Callable[[int], Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    nearest = "membership.provider_attacks={nearest={neighbours=2}}"
    checks = ["--check", "membership.nearest", "--check", "membership.azk"]
    done = cli(
        "mia", "--model", make_checkpoint(0), "--red", corpus_folder, *checks, "--seeds", 2, "--s", 0, "--set", nearest,
        "--out", out,
    )  # fmt: skip
    assert done.returncode in (0, 3), done.stderr
    found = results(out)
    assert {check["status"] for check in found.values()} == {"ran"}
    joint = json.dumps(found["membership.provider"]["tables"][0])
    assert "Nearest known members" in joint
    assert "AZK" in joint
    wrong = cli(
        "mia", "--model", make_checkpoint(0), "--red", corpus_folder, *checks,
        "--set", "membership.provider_attacks={nearest={neighbours=0}}", "--out", tmp_path / "wrong",
    )  # fmt: skip
    assert wrong.returncode == 4
    assert "the setting 'neighbours' of nearest is wrong" in wrong.stderr


def test_a_gradient_attack_and_a_model_family(cli: Run, tmp_path: Path) -> None:
    teacup = tmp_path / "teacup"
    shutil.copytree(FIXTURES / "donut", teacup)
    config = json.loads((teacup / "config.json").read_text())
    (teacup / "config.json").write_text(json.dumps({**config, "teacup": True}))
    inspected = cli("inspect", teacup)
    assert inspected.stdout.split()[1] == "teacup", inspected.stderr
    template = FIXTURES / "templates" / "form-01" / "template.png"
    done = cli("audit", "--model", teacup, "--template", template, "--check", "norms", "--out", tmp_path / "norms")
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "norms")["norms.shared"]["metrics"][0]["value"] > 0
    text = cli("invert", "--model", teacup, "--template", template, "--method", "text", "--out", tmp_path / "text")
    assert text.returncode == 1, text.stderr
    assert results(tmp_path / "text")["inversion.text"]["finding"]["level"] == "leak"


def test_a_form_attack(cli: Run, tmp_path: Path) -> None:
    inputs = ["--forms", FIXTURES / "forms", "--public", FIXTURES / "layoutlm-public"]
    out = tmp_path / "run"
    done = cli("audit", "--model", FIXTURES / "layoutlm-private", *inputs, "--check", "lengths", "--out", out)
    assert done.returncode == 0, done.stderr
    assert results(out)["lengths.fields"]["metrics"][0]["value"] > 1


def test_an_attack_that_raises_fails_alone(
    cli: Run, red: Corpus, corpus_folder: Path, make_checkpoint: Callable[[int], Path], tmp_path: Path
) -> None:
    out = tmp_path / "run"
    checks = ["--check", "raising", "--check", "echo", "--check", "memorization.provider_name"]
    done = cli("audit", "--model", make_checkpoint(0), "--red", corpus_folder, *checks, "--out", out)
    assert done.returncode == 3, done.stderr
    found = results(out)
    assert {name: check["status"] for name, check in found.items()} == {
        "echo.answers": "ran",
        "memorization.provider_name": "ran",
        "raising.always": "failed",
    }
    assert "ValueError" in found["raising.always"]["reason"]
    assert json.loads((out / "run.json").read_text())["status"] == "success"
    kept = out / "private" / "traceback-raising.txt"
    assert f"secret value {red.queries[0].answers[0]}" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0
    assert "secret value" not in done.stderr + done.stdout + (out / "results.json").read_text()


def test_no_file_of_ours_names_the_package() -> None:
    names = ("pfl_stranger", "pfl-stranger", "teacup")
    for room in ("pfl_audit", "attacks", "reports", "fixtures"):
        for path in (ROOT / room).rglob("*.py"):
            assert not any(name in path.read_text() for name in names), path
