"""Several audits in one file: what each is given, which codes and pages come of it, and what is refused."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from pfl_audit.cli import run as run_file
from pfl_audit.cli.main import run
from pfl_audit.cli.run import Children, worst
from pfl_audit.core.plan import AuditPlan
from tests.cli.written import written
from tests.command_server import CommandServer

Capture = pytest.CaptureFixture[str]
Make = Callable[[int], Path]


@pytest.fixture
def several(make_checkpoint: Make, corpus_folder: Path, tmp_path: Path) -> str:
    """Two targets over one corpus."""
    shared = f'red = {json.dumps(str(corpus_folder))}\ncheck = ["membership.azk"]\nout = "{tmp_path / "runs"}"\n'
    tables = (
        f'[[targets]]\nname = "{name}"\nmodel = {json.dumps(str(make_checkpoint(seed)))}\nseed = {seed}\n'
        for seed, name in enumerate(("first", "second"))
    )
    return written(tmp_path, shared + "\n".join(tables))


def test_each_target_has_its_own_keys_over_those_of_the_file(
    several: str, plans: list[AuditPlan], make_checkpoint: Make, tmp_path: Path
) -> None:
    assert run(["run", several]) == 2  # no audit is run here
    assert [plan.out for plan in plans] == [tmp_path / "runs" / name for name in ("first", "second")]
    assert [plan.model for plan in plans] == [str(make_checkpoint(0)), str(make_checkpoint(1))]
    assert [plan.seed for plan in plans] == [0, 1]
    assert {plan.checks for plan in plans} == {("membership.azk",)}
    plans.clear()
    assert run(["run", several, "--out", str(tmp_path / "other"), "--seed", "5"]) == 2
    assert [(plan.out.parent, plan.seed) for plan in plans] == [(tmp_path / "other", 5)] * 2


@pytest.mark.parametrize(
    "order", [("--target", "second", "--config", "FILE"), ("--config", "FILE", "--target", "second")]
)
def test_one_target_can_be_audited_alone(order: tuple[str, ...], several: str, plans: list[AuditPlan]) -> None:
    assert run(["audit", *(several if one == "FILE" else one for one in order)]) == 2
    (plan,) = plans
    assert plan.seed == 1


@pytest.mark.parametrize("choice", [["--target", "second"], ["--target=second"]])
def test_run_audits_the_one_target_that_is_chosen(
    choice: list[str], several: str, plans: list[AuditPlan], tmp_path: Path
) -> None:
    assert run(["run", several, *choice, "--out", str(tmp_path / "alone")]) == 2
    assert [(plan.seed, plan.out) for plan in plans] == [(1, tmp_path / "alone")]
    assert run(["run", several, *choice, "--at-once", "2"]) == 4


def test_no_module_of_the_working_folder_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "typer.py").write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    ended = Children(1).audit({"first": ["list"]}, show=False)["first"]
    assert ended.code == 0
    assert "membership.azk" in ended.told


@pytest.mark.slow
def test_targets_are_audited_and_compared(
    several: str, commands: CommandServer, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above starts a child as it is; here each is a fork that has the libraries imported."""
    start = subprocess.Popen
    with monkeypatch.context() as patch:
        patch.setattr(
            run_file.subprocess, "Popen", lambda words, **how: start([str(commands.program), *words[5:]], **how)
        )
        code = run(["run", several, "--at-once", "2", "--json", "--require", "membership.azk"])
    found = json.loads(capsys.readouterr().out)
    assert set(found["targets"]) == {"first", "second"}
    assert code == worst([one["exit_code"] for one in found["targets"].values()])
    assert all(one["printed"]["checks"] for one in found["targets"].values())
    page = (tmp_path / "runs/comparison.html").read_text()
    assert "first" in page
    assert "second" in page
    assert run(["run", several, "-q", "--require", "membership.azk", "--out", str(tmp_path / "alone")]) == code
    beside, alone = metrics(tmp_path / "runs"), metrics(tmp_path / "alone")
    assert beside == alone
    assert any(map(any, alone.values()))


def metrics(folder: Path) -> dict[str, list[object]]:
    """The numbers of the checks of each target."""
    read = {name: json.loads((folder / name / "results.json").read_text()) for name in ("first", "second")}
    return {name: [check["metrics"] for check in one["checks"]] for name, one in read.items()}


def test_a_target_that_cannot_be_audited_stops_no_other(several: str, plans: list[AuditPlan], capsys: Capture) -> None:
    broken = Path(several).read_text().replace('name = "first"', 'name = "first"\ndevice = "nowhere"', 1)
    Path(several).write_text(broken)
    assert run(["run", several]) in (2, 4)
    assert len(plans) == 2
    said = capsys.readouterr().err
    assert "target first" in said
    assert "target second" in said


def test_the_worst_code_is_that_of_all() -> None:
    assert worst([0, 0]) == 0
    assert worst([0, 3, 1]) == 1
    assert worst([3, 0]) == 3
    assert worst([1, 2, 3]) == 2
    assert worst([2, 130]) == 130


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ("targets = 3", "'targets' must be tables"),
        ("[[targets]]\nseed = 1", "target 1 has no usable name"),
        ('[[targets]]\nname = "../up"', "target 1 has no usable name"),
        ('[[targets]]\nname = "a"\n[[targets]]\nname = "a"', "two targets have the name a"),
        ('[[targets]]\nname = "a"\nout = "x"', "the target a sets 'out'"),
        ('[[targets]]\nname = "a"\ncolour = 1', "there is no setting 'colour'"),
        ('[[targets]]\nname = "a"', "no folder for them"),
    ],
)
def test_what_is_wrong_is_one_line(targets: str, message: str, tmp_path: Path, capsys: Capture) -> None:
    out = "" if "no folder" in message else f'out = "{tmp_path / "runs"}"\n'
    code = run(["run", written(tmp_path, out + targets)])
    said = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("target ")]
    assert code in (2, 4)
    assert len(said) == 1
    assert message in said[0]


def test_a_target_must_be_there(several: str, capsys: Capture) -> None:
    for arguments, message in (
        (["--config", several], "has 2 targets"),
        (["--config", several, "--target", "third"], "has no target third; it has first, second"),
        (["--target", "first"], "is none of a file's [[targets]]"),
    ):
        assert run(["audit", *arguments]) == 4
        assert message in capsys.readouterr().err
