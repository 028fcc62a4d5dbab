"""A whole audit as one file: run, validate, dry run, and the file that init writes."""

import json
import os
import shutil
import tomllib
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from pfl_audit.cli.init import as_toml, look
from pfl_audit.cli.main import run
from pfl_audit.core.plan import AuditPlan
from pfl_audit.documents.readers import open_corpus
from tests.cli.written import written

Capture = pytest.CaptureFixture[str]
Make = Callable[[int], Path]

GATES = 'gate = ["membership.* : tpr_at_1_fpr <= 2 %", "guarantee.epsilon <= 8"]\nrequire = ["memorization"]\n'
WAIVER = """[[waivers]]
check = "membership"
reason = "none of them exist"
name = "A. Engineer"
expires = 2026-12-31
"""


@pytest.fixture
def audit(make_checkpoint: Make, corpus_folder: Path, tmp_path: Path) -> str:
    """The configuration of an audit that can run."""
    checks = 'check = ["membership.azk", "memorization.provider_name"]'
    targets = f"model = {json.dumps(str(make_checkpoint(0)))}\nred = {json.dumps(str(corpus_folder))}"
    return written(tmp_path, f"{targets}\n{checks}\n{GATES}{WAIVER}")


def test_run_and_config_are_one_schema(plans: list[AuditPlan], audit: str, tmp_path: Path) -> None:
    assert run(["run", audit, "--seed", "7", "--out", str(tmp_path / "o")]) == 2
    assert run(["audit", "--config", audit, "--seed", "7", "--out", str(tmp_path / "o")]) == 2
    first, second = plans
    assert first.identity() == second.identity()
    assert first.gates == second.gates == ("membership.* : tpr_at_1_fpr <= 2 %", "guarantee.epsilon <= 8")
    assert (first.require, first.seed, first.config) == (("memorization",), 7, Path(audit))
    assert first.waivers[0].expires == date(2026, 12, 31)


def test_a_valid_file(audit: str, capsys: Capture) -> None:
    for command in (["validate", audit], ["run", audit, "--validate"]):
        assert run(command) == 0
        said = capsys.readouterr().out
        assert "valid: " in said
        assert "gates: 2, waivers: 1, required: memorization" in said
    assert run(["validate", audit, "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert checks["membership.azk"] is None  # and those that the gate needs are added
    assert "membership.apk" in checks


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('gate = "tpr < 2"', "cannot be read"),
        ('gate = "nothing.x : tpr < 2 %"', "is about no check"),
        ('require = "nothing"', "there is no check 'nothing'"),
        ('check = "nothing"', "there is no check 'nothing'"),
        ('model = "nowhere"', "nowhere does not exist"),
        ('red = "nowhere"', "nowhere does not exist"),
        ('baseline = "nowhere"', "nowhere does not exist"),
        ('pretrained = "nowhere"', "nowhere does not exist. Correct 'pretrained' of questions"),
        ('reference = ["nowhere", "n"]', "nowhere does not exist. Correct 'references' of questions"),
        ('public = "nowhere"', "nowhere does not exist. Correct 'public' of forms"),
        ("colour = 1", "no setting 'colour'"),
        ("waivers = 3", "'waivers' must be tables"),
        ('[[waivers]]\ncheck = "membership"', "waiver 1: 'reason' is wrong"),
        ("published = 3", "'published' must be tables"),
        ('[[published]]\npaper = "p"', "published number 1: 'table' is wrong"),
        ("as-published = 1", "'as-published' must be true or false"),
        ("[attacks.membership]\nseeds = 0", "the setting 'seeds' of membership is wrong"),
        ("\x1b = 1", "is not valid TOML"),
        ('gate = "\\u001b[31m : tpr < 2 %"', "cannot be read"),
        ('[[waivers]]\ncheck = "membership"\nreason = "abc"\nname = "abc"\n"\\u001b[2J" = 3', "waiver 1"),
    ],
)
def test_what_is_wrong_is_one_line(
    change: str, message: str, make_checkpoint: Make, corpus_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    given = {"model": json.dumps(str(make_checkpoint(0))), "red": json.dumps(str(corpus_folder))}
    given.pop(change.split(" ")[0], None)
    base = "".join(f"{key} = {value}\n" for key, value in given.items())
    code = run(["validate", written(tmp_path, base + change)])
    said = capsys.readouterr().err
    assert message in said
    assert code in (2, 4)
    assert len(said.splitlines()) == 1
    assert "\x1b" not in said


def test_a_dry_run_counts_and_times(audit: str, tmp_path: Path, capsys: Capture) -> None:
    assert run(["run", audit, "--dry-run", "--json", "--out", str(tmp_path / "o")]) == 0
    found = json.loads(capsys.readouterr().out)["subjects"]["questions"]
    assert found["questions"] > 16
    assert found["sample"] > 0
    assert found["seconds"] > 0
    assert found["memory"] > 1 << 20
    assert not (tmp_path / "o").exists()
    assert run(["run", audit, "--dry-run", "-q"]) == 0
    said = capsys.readouterr().out
    assert f"at most {found['questions']:,} questions" in said
    assert "GiB of memory" in said


@pytest.mark.slow
def test_a_dry_run_counts_the_losses_with_dropout(audit: str, corpus_folder: Path, capsys: Capture) -> None:
    """Its gate is about all attacks on membership, and some of them take losses."""

    def counted(*more: str) -> int:
        assert run(["run", audit, "--dry-run", "--json", "-q", *more]) == 0
        return int(json.loads(capsys.readouterr().out)["subjects"]["questions"]["questions"])

    plain = counted()
    assert counted("--as-published") == plain + len(open_corpus(corpus_folder, "red").queries)
    assert counted("--as-published", "--set", "membership.losses=evaluation") == plain


def test_init_writes_a_file_that_is_valid(
    make_checkpoint: Make, corpus_folder: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models/broken").mkdir()
    (tmp_path / "models/broken/config.json").write_text("{")
    (tmp_path / "models/one").symlink_to(make_checkpoint(0))
    (tmp_path / "data").symlink_to(corpus_folder)
    monkeypatch.chdir(tmp_path)
    assert run(["init", "models/one"]) == 0
    assert "checkpoint  models/one" in capsys.readouterr().out
    assert run(["init"]) == 4
    assert "is there already" in capsys.readouterr().err
    written = tomllib.loads((tmp_path / "audit.toml").read_text())
    assert written["model"] == "models/one"
    assert run(["validate", "audit.toml", "--red", "data"]) == 0
    assert look(tmp_path / "models/broken").models == []


def test_what_exists_and_is_no_folder_is_an_error_and_not_wrong_usage(
    make_checkpoint: Make, corpus_folder: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "file").touch()
    audit = written(tmp_path, f'model = "{tmp_path}/file"\nred = "{corpus_folder}"\n')
    init = ["init", str(tmp_path / "file"), "--out", str(tmp_path / "audit2.toml")]
    for command in (["validate", audit], init):
        assert run(command) == 2
        assert "file is no folder" in capsys.readouterr().err
    assert run(["init", str(tmp_path / "nowhere"), "--out", str(tmp_path / "audit2.toml")]) == 4
    assert "nowhere does not exist" in capsys.readouterr().err
    assert not (tmp_path / "audit2.toml").exists()


def test_everything_that_init_comments_is_valid(corpus_folder: Path, make_checkpoint: Make, tmp_path: Path) -> None:
    found = look(make_checkpoint(0))
    found.corpora = look(corpus_folder).corpora[:1]
    assert found.models
    assert found.corpora
    text = as_toml(found)
    lines = [
        line.removeprefix("# ") if " = " in line or line.startswith(("# [", "#  ")) else line
        for line in text.splitlines()
        if "baseline" not in line and not line.startswith("# Only")
    ]
    assert run(["validate", written(tmp_path, "\n".join(lines).replace("#         ", ""))]) == 0


def test_init_leaves_out_a_name_that_no_configuration_can_hold(
    make_checkpoint: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / os.fsdecode(b"\xff")).mkdir()
    (tmp_path / os.fsdecode(b"\xff") / "config.json").write_bytes((make_checkpoint(0) / "config.json").read_bytes())
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == 0
    assert "model" not in tomllib.loads((tmp_path / "audit.toml").read_text())


def test_init_asks_about_a_corpus_that_is_not_named_as_training() -> None:
    from pfl_audit.cli.init import Found

    found = Found(corpora=[("data/blue-2024", "jsonl"), ("data/red", "jsonl")])
    assert tomllib.loads(as_toml(found))["red"] == "data/red"
    assert '# blue = "data/blue-2024"' in as_toml(found)


def test_init_says_which_checkpoint_it_chose_of_several(
    make_checkpoint: Make, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    for number, name in enumerate(("b-final", "a-base")):
        (tmp_path / "models" / name).symlink_to(make_checkpoint(number))
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--json", "--out", "one.toml"]) == 0
    assert json.loads(capsys.readouterr().out)["chosen"] == {"model": None, "red": None, "forms": None}  # links
    shutil.copytree(tmp_path / "models", tmp_path / "own")
    assert run(["init", "own", "--out", "two.toml"]) == 0
    said, text = capsys.readouterr().out, (tmp_path / "two.toml").read_text()
    assert "model is own/a-base, the first of 2: change it if another is meant" in said
    assert "# Checkpoint under audit; the first of 2 that were found" in text
    assert '# pretrained = "own/b-final"' in text
    assert run(["init", "own/a-base", "--out", "three.toml"]) == 0
    assert "the first of" not in capsys.readouterr().out + (tmp_path / "three.toml").read_text()


def test_init_finds_a_corpus_once(corpus_folder: Path, tmp_path: Path) -> None:
    """Neither the project around it nor the parts in it."""
    (tmp_path / "project").mkdir()
    shutil.copytree(corpus_folder, tmp_path / "project/data", ignore=shutil.ignore_patterns("*.jpg"))
    found = [("data", "pfl-docvqa")]
    for place in (tmp_path / "project", tmp_path / "project/data"):
        corpora = look(place).corpora
        assert [(Path(path).name, name) for path, name in corpora] == found


def test_init_quotes_what_a_path_may_hold(tmp_path: Path) -> None:
    from pfl_audit.cli.init import Found

    name = 'a"b\\c\n[x]\x7f\x1b é 𝄞'
    assert tomllib.loads(as_toml(Found(models=[(name, "vt5")])))["model"] == name


FULL = """
model = "m"
red = "r"
pretrained = "p"
blue = "b"
control = "c"
reference = ["x", "y"]
check = ["membership"]
require = ["membership"]
gate = ["membership : auc <= 0.6"]
baseline = "before"
fail-on = "never"
device = "cpu"
out = "o"
store = "s"
sarif = "a.sarif"

[attacks.membership]
seeds = "x"

[subjects.questions]
unit = "provider"

[[waivers]]
check = "membership"
metric = "auc"
reason = "reason"
name = "name"
expires = "2026-12-31"

[[published]]
paper = "paper"
table = "Table 1"
row = "row"
check = "membership.azk"
metric = "accuracy"
value = 56.13
"""
TERMINAL = "\\u001b[2J\\u0007\\u202e\\u009b0m[red]"


@pytest.mark.parametrize("place", range(FULL.count('"') // 2))
def test_no_text_of_a_configuration_reaches_the_terminal_as_a_code(place: int, tmp_path: Path, capsys: Capture) -> None:
    """Every text of a file with every kind of key, one after another."""
    parts = FULL.split('"')
    parts[2 * place + 1] = TERMINAL
    assert run(["validate", written(tmp_path, '"'.join(parts))]) in (2, 4)
    said = capsys.readouterr()
    assert not {"\x1b", "\x07", "\u202e", "\x9b"} & set(said.out + said.err)
    assert len(said.err.splitlines()) == 1


def test_a_key_reaches_the_terminal_as_no_code_either(tmp_path: Path, capsys: Capture) -> None:
    for text in (f'"{TERMINAL}" = 1', f'[attacks.membership]\n"{TERMINAL}" = 1', f'[attacks."{TERMINAL}"]'):
        assert run(["validate", written(tmp_path, f'red = "r"\nmodel = "m"\n{text}')]) in (2, 4)
        said = capsys.readouterr()
        assert "\x1b" not in said.err
        assert len(said.err.splitlines()) == 1
