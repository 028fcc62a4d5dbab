"""Settings from a file, and the options that every command shares."""

import json
from pathlib import Path

import pytest

from pfl_audit.cli.main import run
from pfl_audit.core.plan import AuditPlan
from tests.cli.written import written

Capture = pytest.CaptureFixture[str]


def test_keys_are_the_names_of_the_flags(corpus_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["data", "check", str(corpus_folder), "--config", written(tmp_path, "json = true\nimages = false")]) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []
    assert run(["data", "check", str(corpus_folder), "--config", written(tmp_path, "as_json = true")]) == 4
    assert "no setting 'as_json' of data check. 'pfl-audit data check --help' lists" in capsys.readouterr().err


def test_dashes_and_underlines_are_the_same(plans: list[AuditPlan], tmp_path: Path) -> None:
    for key in ("fail-on", "fail_on"):
        run(["demo", "--config", written(tmp_path, "seed = 3"), "--out", str(tmp_path)])
        run(["mia", "--red", "x", "--model", "m", "--config", written(tmp_path, f'{key} = "weak"')])
    assert [(plan.seed, plan.fail_on) for plan in plans] == [(3, "leak"), (0, "weak")] * 2


def test_one_value_is_a_list_of_one(plans: list[AuditPlan], tmp_path: Path) -> None:
    config = written(tmp_path, '[mia]\ncheck = "membership.azk"\ns = 3')
    run(["mia", "--red", "x", "--model", "m", "--config", config])
    assert plans[0].checks == ("membership.azk",)
    assert plans[0].settings["membership"]["s"] == (3,)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("[data.make]\nmembers = -1\n[data.check]\nimages = false\n[train]\nsteps = 1", 4, "members"),
        ("[data]\nclients = 0", 4, "clients"),
        ("[data.make]\nmember = 1", 4, "no setting 'data.make.member' of data make"),
        ("[data.mak]\nmembers = 1", 4, "no setting 'data.mak' of data make"),
        ("data = 3", 4, "no setting 'data' of data make"),
        ('seed = "many"', 4, "audit.toml: 'seed' must be a whole number"),
        ("seed = [1, 2]", 4, "audit.toml: 'seed' must be a whole number"),
        ("seed = {x = 1}", 4, "audit.toml: 'seed' must be a whole number"),
        ("seed = 2020-01-01", 4, "audit.toml: 'seed' must be a whole number"),
        ("seed = true", 4, "audit.toml: 'seed' must be a whole number"),
        ("seed = -1", 4, "audit.toml: 'seed' must be from 0 to"),
        ("seed = 99999999999999999999", 4, "audit.toml: 'seed' must be a smaller number"),
        ("[data.make]\nocr-noise = 12:00:00", 4, "audit.toml: 'data.make.ocr-noise' must be a number"),
        ("[data.make]\nquiet = 1", 4, "audit.toml: 'data.make.quiet' must be true or false"),
        ("seed = " + "1" * 4000, 4, "must be a smaller number"),
        ("seed = " + "[" * 3000, 2, "audit.toml is nested too deeply"),
        ("a" + ".a" * 5000 + " = 1", 2, "holds a line of more than 4,096 letters"),
        ("seed =", 2, "audit.toml is not valid TOML"),
    ],
)
def test_tables_of_nested_commands(tmp_path: Path, text: str, code: int, message: str, capsys: Capture) -> None:
    assert run(["data", "make", "--out", str(tmp_path / "new"), "--config", written(tmp_path, text)]) == code
    assert message in capsys.readouterr().err


def test_a_byte_order_mark_is_no_part_of_a_setting(plans: list[AuditPlan], tmp_path: Path) -> None:
    run(["mia", "--red", "x", "--model", "m", "--config", written(tmp_path, "\ufeffseed = 7")])
    assert plans[0].seed == 7


def test_a_file_that_does_not_exist_and_one_that_cannot_be_used(tmp_path: Path, capsys: Capture) -> None:
    assert run(["mia", "--red", "x", "--config", str(tmp_path / "none.toml")]) == 4
    assert "none.toml does not exist" in capsys.readouterr().err
    assert run(["mia", "--red", "x", "--config", str(tmp_path)]) == 2
    assert "is a folder, not a regular file" in capsys.readouterr().err


def test_seeds_that_scikit_learn_cannot_count_up_from(tmp_path: Path, capsys: Capture) -> None:
    assert run(["mia", "--red", "x", "--model", "m", "--seed", str(2**32 - 100)]) == 4
    assert "--seed" in capsys.readouterr().err


def test_every_key_and_recorded_answers(plans: list[AuditPlan], capsys: Capture) -> None:
    asked = ["memorize", "--red", "x", "--answers", "a.jsonl"]
    run([*asked, "--key", "all", "--key", "tax_number"])
    run([*asked, "--no-unprompted"])
    assert len(plans[0].checks) == 8
    assert plans[0].checks[-1] == "memorization.unprompted"
    assert plans[1].checks == ("memorization.provider_name",)
    assert run([*asked, "--key", "all", "--key", "shoe_size"]) == 4


def test_a_device_that_is_not_there(corpus_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    arguments = ["train", "--data", str(corpus_folder), "--out", str(tmp_path), "--device", "nonsense"]
    assert run(arguments) == 4
    assert "cannot use the device 'nonsense'" in capsys.readouterr().err


def test_quiet_conversions_say_nothing(corpus_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    assert run(["data", "convert", str(corpus_folder), "--out", str(tmp_path / "safe"), "-q"]) == 0
    assert capsys.readouterr() == ("", "")


def test_export_as_json_lists_what_is_left_out(corpus_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    safe = tmp_path / "safe"
    run(["data", "convert", str(corpus_folder), "--out", str(safe)])
    rows = [json.loads(line) for line in (safe / "corpus.jsonl").read_text().splitlines()]
    broken = next(row for row in rows if row["split"] == "red_test_positive")
    (safe / broken["image"]).write_bytes(b"no picture")
    capsys.readouterr()
    arguments = ["memorize", "--red", str(safe), "--export", str(tmp_path / "ask"), "--json", "--reveal"]
    assert run(arguments) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    lines = (tmp_path / "ask/questions.jsonl").read_text().splitlines()
    assert (found["questions"], found["pages"], found["folder"]) == (len(lines), len(lines), str(tmp_path / "ask"))
    (reason,) = [row["reason"] for row in found["skipped"] if row["page"] == broken["id"]]
    assert "cannot be used" in reason
    assert err == ""
    assert run(arguments) == 4
    assert "is not empty" in capsys.readouterr().err
