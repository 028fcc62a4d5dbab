"""The shell steps of the composite action, run locally, and the files of CI around it."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml

from pfl_audit.cli.main import run
from tests.command_server import CommandServer

ROOT = Path(__file__).parents[2]
ACTION = ROOT / ".github/actions/pfl-audit/action.yml"
Make = Callable[[int], Path]


class Job:
    """Runs the steps of an action as a runner does: expressions are replaced in ``env`` alone."""

    def __init__(self, folder: Path, inputs: dict[str, str], program: Path) -> None:
        self.action: dict[str, Any] = yaml.safe_load(ACTION.read_text())
        self.folder = folder
        self.inputs = {name: one.get("default", "") for name, one in self.action["inputs"].items()} | inputs
        self.outputs: dict[str, dict[str, str]] = {}
        self.summary = folder / "summary.md"
        (folder / "bin").mkdir()
        (folder / "bin/pfl-audit").symlink_to(program)

    def run(self) -> dict[str, int]:
        """Exit code of every step, up to the first that fails."""
        codes: dict[str, int] = {}
        for step in self.action["runs"]["steps"]:
            if step.get("if") == "inputs.install == 'true'" and self.inputs["install"] != "true":
                continue
            assert "${{" not in step["run"]  # a value cannot become part of a script
            output = self.folder / "output"
            output.write_text("")
            env = {
                **os.environ,
                **{name: self._value(text) for name, text in step["env"].items()},
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT),
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(self.summary),
            }
            # As GitHub's runner starts bash.
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.folder, env=env, check=False, capture_output=True, text=True, timeout=600,
            )  # fmt: skip
            codes[step["name"]] = done.returncode
            self.outputs[step.get("id", "")] = dict(line.split("=", 1) for line in output.read_text().splitlines())
            if done.returncode:
                print(done.stderr)
                break
        return codes

    def _value(self, text: str) -> str:
        found = re.fullmatch(r"\$\{\{ (inputs|steps)\.([\w-]+)(?:\.outputs\.([\w-]+))? \}\}", text)
        assert found, text
        return self.inputs[found[2]] if found[1] == "inputs" else self.outputs[found[2]][found[3]]


@pytest.fixture
def config(make_checkpoint: Make, corpus_folder: Path, tmp_path: Path) -> Callable[[str], dict[str, str]]:
    """Inputs of the action with a configuration of one quick check."""

    def write(more: str) -> dict[str, str]:
        given = {"model": str(make_checkpoint(0)), "red": str(corpus_folder), "check": "memorization.generalisation"}
        (tmp_path / "ci").mkdir()
        lines = [f"{key} = {json.dumps(value)}" for key, value in given.items()]
        (tmp_path / "ci/audit.toml").write_text("\n".join([*lines, more]))
        return {"config": "ci/audit.toml", "install": "false"}

    return write


def test_the_steps_of_an_audit_that_fails_its_gate(config: Any, tmp_path: Path, commands: CommandServer) -> None:
    inputs = config('fail-on = "never"\ngate = "memorization.generalisation : acc >= 99 % on estimate"')
    job = Job(tmp_path, {**inputs, "arguments": "--dossier\nmy dossier\n\n--seed\n3\n"}, commands.program)
    assert job.run() == {"Validate": 0, "Audit": 0, "Gate": 1}
    sarif = json.loads((tmp_path / "pfl-audit.sarif").read_text())
    assert [one["ruleId"] for one in sarif["runs"][0]["results"]] == ["gate/memorization.generalisation"]
    place = sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert place == "ci/audit.toml"
    assert sum(suite.failures for suite in JUnitXml.fromfile(str(tmp_path / "pfl-audit-junit.xml"))) == 1
    assert "## Privacy audit" in job.summary.read_text()
    assert json.loads((tmp_path / "pfl-audit-run/results.json").read_text())["provenance"]["seed"] == 3
    assert run(["verify", str(tmp_path / "my dossier")]) == 0


def test_an_audit_that_passes_and_one_that_lacks_something(
    config: Any, tmp_path: Path, commands: CommandServer
) -> None:
    inputs = config('fail-on = "never"\ngate = "memorization.generalisation : acc >= 0 % on estimate"')
    job = Job(tmp_path, inputs, commands.program)
    code = job.run()["Gate"]
    found = json.loads((tmp_path / "pfl-audit-run/results.json").read_text())["verdict"]["gate"]["numbers"][0]
    assert code == {"passed": 0, "not audited": 3}[found["status"]]


def test_a_wrong_configuration_stops_before_the_audit(config: Any, tmp_path: Path, commands: CommandServer) -> None:
    job = Job(tmp_path, config('gate = "nothing"'), commands.program)
    assert job.run() == {"Validate": 4}


def test_the_workflow_runs_the_action_on_the_embedded_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    workflow = yaml.safe_load((ROOT / ".github/workflows/audit.yml").read_text())
    steps = workflow["jobs"]["embedded-model"]["steps"]
    (step,) = [step for step in steps if step.get("uses") == "./.github/actions/pfl-audit"]
    assert set(step["with"]) <= set(yaml.safe_load(ACTION.read_text())["inputs"])
    assert run(["validate", step["with"]["config"]]) == 0


def test_the_container_runs_without_rights_and_offline() -> None:
    lines = (ROOT / "Containerfile").read_text().splitlines()
    user = next(number for number, line in enumerate(lines) if line.startswith("USER "))
    assert lines[user] == "USER 1000:1000"
    assert not [line for line in lines[user:] if line.startswith(("USER root", "RUN"))]
    assert any("HF_HUB_OFFLINE=1" in line and "TRANSFORMERS_OFFLINE=1" in line for line in lines)
    assert 'ENTRYPOINT ["pfl-audit"]' in lines


def test_the_image_holds_the_wheel_and_packages_with_hashes_alone() -> None:
    text = (ROOT / "Containerfile").read_text()
    _, builder, image = text.split("\nFROM ")
    assert re.findall(r"^(?:COPY|ADD) .*", image, re.MULTILINE) == [
        "COPY requirements.lock /requirements.lock",
        "COPY --from=build /wheels /wheels",
    ]
    assert "--require-hashes -r /requirements.lock" in image
    assert "COPY . " not in builder
    assert (ROOT / ".containerignore").read_text() == (ROOT / ".dockerignore").read_text()


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    used = re.findall(r"uses: (.+)", path.read_text())
    assert used
    for one in used:
        assert re.fullmatch(r"\./\S+|[\w-]+(/[\w-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one), one
        name, _, commit = one.partition("@")
        listed = f"| {name} | {commit.partition('# ')[2]} | {commit.partition(' ')[0]} |"
        assert one.startswith("./") or listed in (ROOT / "docs/supply-chain.md").read_text()


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_may_read_and_a_job_no_more_than_it_needs(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        steps = job["steps"]
        reports = any("upload-sarif" in step.get("uses", "") for step in steps)
        needed = {"contents": "read", **({"security-events": "write"} if reports else {})}
        assert job.get("permissions", workflow["permissions"]) == needed
        fetched = [step for step in steps if step.get("uses", "").startswith("actions/checkout@")]
        assert [step["with"]["persist-credentials"] for step in fetched] == [False]
