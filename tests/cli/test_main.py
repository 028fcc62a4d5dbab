import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl_audit.cli.main import run
from pfl_audit.documents.document import Query
from pfl_audit.models.protocol import Response
from tests.command_server import CommandServer

Make = Callable[[int], Path]


def test_the_package_is_a_module_to_run() -> None:
    """As launchers such as torchrun do with ``-m pfl_audit``, in a process of its own: it ends with signals ignored."""
    ended = subprocess.run(
        [sys.executable, "-m", "pfl_audit", "--version"], capture_output=True, text=True, check=True, timeout=120
    )
    assert ended.stdout.startswith("pfl-audit ")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["mia", "--help"], ["data", "make", "--help"]])
def test_help_and_version_import_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import sys, time\n"
        "from pfl_audit.cli.main import run\n"
        f"code = run({arguments!r})\n"
        "heavy = {'torch', 'transformers', 'sklearn', 'numpy', 'pandas', 'matplotlib'} & set(sys.modules)\n"
        "print('HEAVY', sorted(heavy), code)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "HEAVY [] 0" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        "demo",
        "audit",
        "memorize",
        "mia",
        "reconstruct",
        "report",
        "train",
        "account",
        "inspect",
        "list",
        "data check",
        "data make",
        "data make-forms",
    ],
)
def test_every_command_has_help_with_an_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command.split(), "--help"]) == 0
    assert f"Example: pfl-audit {command.split()[0]}" in " ".join(capsys.readouterr().out.split())


def test_a_command_that_is_misspelt_is_suggested_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["aduit"]) == 4
    assert capsys.readouterr().err.startswith(
        "pfl-audit: No such command 'aduit'. Did you mean 'audit'? 'pfl-audit --help'"
    )


def test_no_arguments_show_help(capsys: pytest.CaptureFixture[str]) -> None:
    run([])
    assert "Usage: pfl-audit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["mia"], 4, "--red"),
        (["mia", "--red", "x", "--nonsense"], 4, "--nonsense"),
        (["nonsense"], 4, "nonsense"),
        (["mia", "--red", "nowhere", "--model", "m"], 4, "nowhere does not exist"),
        (["mia", "--red", "x"], 4, "one of --model, --answers and --endpoint"),
        (["mia", "--red", "x", "--model", "m", "--seeds", "0"], 4, "--seeds"),
        (["memorize", "--red", "x", "--model", "m", "--key", "shoe_size"], 4, "no key 'shoe_size'"),
        (["memorize", "--red", "x", "--export", "y", "--validate"], 4, "--export audits nothing"),
        (["report", "nowhere"], 4, "does not exist"),
        (["inspect", "nowhere"], 4, "does not exist"),
        (["inspect", "nowhere", "--open"], 4, "no local folder"),
        (["train", "--data", "nowhere", "--out", "x"], 4, "does not exist"),
        (["train", "--data", "x", "--out", "y", "--vocabulary", "-5"], 4, "--vocabulary"),
        (["train", "--data", "x", "--out", "y", "--lora", "100000000"], 4, "--lora"),
        (["data", "check", "nowhere"], 4, "does not exist"),
        (["data", "import", "other", "x", "--out", "y"], 4, "no source 'other'"),
    ],
)
def test_mistakes_are_one_line_and_the_right_code(
    arguments: list[str], code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("pfl-audit: ")
    assert not list(tmp_path.rglob("results.json"))


def test_json_is_one_document_on_stdout(
    commands: CommandServer, make_checkpoint: Make, corpus_folder: Path, tmp_path: Path
) -> None:
    done = commands.run(
        "mia", "--model", make_checkpoint(0), "--red", corpus_folder, "--check", "membership.azk", "--seeds", 1,
        "--out", tmp_path / "run", "--json",
    )  # fmt: skip
    results = json.loads(done.stdout)
    assert results["schema_version"] == "2.2"
    assert done.returncode == 3  # too few providers: unresolved
    assert "questions to the model" in done.stderr
    assert (tmp_path / "run/report.html").is_file()


def test_quiet_says_nothing_on_stderr(
    commands: CommandServer, make_checkpoint: Make, corpus_folder: Path, tmp_path: Path
) -> None:
    done = commands.run(
        "mia", "--model", make_checkpoint(0), "--red", corpus_folder, "--check", "membership.azk", "--seeds", 1,
        "--out", tmp_path / "run", "--quiet",
    )  # fmt: skip
    assert done.stderr == ""
    assert "INCOMPLETE" in done.stdout
    assert "\x1b[" not in done.stdout


def test_report_renders_again_without_the_model(make_checkpoint: Make, corpus_folder: Path, tmp_path: Path) -> None:
    arguments = ["mia", "--model", str(make_checkpoint(0)), "--red", str(corpus_folder), "--check", "membership.azk"]
    run([*arguments, "--seeds", "1", "--out", str(tmp_path / "run"), "-q"])
    before = (tmp_path / "run/report.html").read_bytes()
    (tmp_path / "run/report.html").unlink()
    assert run(["report", str(tmp_path / "run")]) == 0
    assert (tmp_path / "run/report.html").read_bytes() == before


def test_settings_from_a_file_and_flags_win(
    make_checkpoint: Make, corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "audit.toml"
    config.write_text(
        f'red = "{corpus_folder}"\nseed = 3\nquiet = true\n'
        f'[mia]\nmodel = "{make_checkpoint(0)}"\nseeds = 2\ns = [0, 1]\ncheck = ["membership.azk"]\n'
        "[train]\nsteps = 3\n"
    )
    run(["mia", "--config", str(config), "--out", str(tmp_path / "run"), "--seeds", "1", "--json"])
    results = json.loads(capsys.readouterr().out)
    settings = results["checks"][0]["settings"]
    assert (settings["seeds"], settings["s"], results["provenance"]["seed"]) == (1, [0, 1], 3)


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("nonsense = 1", 4, "no setting 'nonsense' of mia"),
        ("[mia]\nnonsense = 1", 4, "no setting 'mia.nonsense' of mia"),
        ("= 1", 2, "not valid TOML"),
        ("[nonsense]\nx = 1", 4, "no setting 'nonsense'"),
    ],
)
def test_unknown_settings_are_errors(
    tmp_path: Path, text: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "audit.toml").write_text(text)
    assert run(["mia", "--config", str(tmp_path / "audit.toml"), "--red", "x"]) == code
    assert message in capsys.readouterr().err


def test_list_names_checks_and_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "--json"]) == 0
    rows = {row["id"]: row["needs"] for row in json.loads(capsys.readouterr().out)}
    assert "pre-trained model (--pretrained)" in rows["membership.apk"]
    assert rows["membership.azk"] == ["answer"]
    assert "memorization.unprompted" in rows


def test_inspect_says_how_a_checkpoint_was_opened(make_checkpoint: Make, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(make_checkpoint(0)), "--open"]) == 0
    out = capsys.readouterr().out
    assert "boxes: thousandths" in out
    assert "answer; confidence; likely answers; live; loss; tables of words; trainable; training gradient" in out


def test_inspect_reads_headers_alone(make_checkpoint: Make) -> None:
    code = (
        "import sys\nfrom pfl_audit.cli.main import run\n"
        f"assert run(['inspect', {str(make_checkpoint(0))!r}]) == 0\nassert 'torch' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_schema_is_that_of_the_results(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema"]) == 0
    assert "verdict" in json.loads(capsys.readouterr().out)["properties"]


def test_export_for_a_vendor(corpus_folder: Path, tmp_path: Path) -> None:
    assert run(["memorize", "--red", str(corpus_folder), "--export", str(tmp_path / "ask")]) == 0
    rows = [json.loads(line) for line in (tmp_path / "ask/questions.jsonl").read_text().splitlines()]
    assert rows
    assert all(row["id"].endswith("/scrubbed/provider_name") for row in rows)


def test_an_export_blurs_what_an_engine_reads_in_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    red = tmp_path / "red"
    red.mkdir()
    page = {"id": "p", "provider": "Acme", "membership": "member", "image": "p.png",
            "words": ["Acme", "due"], "boxes": [[0.1, 0.1, 0.2, 0.12], [0.3, 0.1, 0.4, 0.12]],
            "questions": [{"id": "q", "key": "provider_name", "question": "Who?", "answers": ["Acme"]}]}  # fmt: skip
    (red / "corpus.jsonl").write_text(json.dumps(page) + "\n")
    pixels = np.full((400, 400), 255, dtype=np.uint8)
    pixels[40:48, 40:160:4] = pixels[200:240, 40:360:4] = 0  # the word of the page, and a line in the picture alone
    Image.fromarray(pixels).save(red / "p.png")

    class Reader:
        def respond(self, queries: list[Query]) -> list[Response]:
            return [Response(json.dumps([["Acme", 0.1, 0.5, 0.9, 0.6]])) for _ in queries]

    monkeypatch.setattr("pfl_audit.models.page_reader.PageReader", Reader)
    pictures = []
    for more in ([], ["--ocr"]):
        out = tmp_path / f"ask{len(more)}"
        assert run(["memorize", "--red", str(red), "--export", str(out), "-q", *more]) == 0
        (file,) = (path for path in out.rglob("*") if path.suffix in (".png", ".jpg"))
        pictures.append(np.asarray(Image.open(file).convert("L"), dtype=int))
    assert [np.ptp(one[205:235, 60:340]) > 128 for one in pictures] == [True, False]
    assert all(np.ptp(one[40:48, 60:70]) < 128 for one in pictures)


def test_data_commands(corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["data", "convert", str(corpus_folder), "--out", str(tmp_path / "safe")]) == 0
    assert run(["data", "check", str(tmp_path / "safe"), "--json", "-q"]) == 0
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert {row["split"] for row in counts} >= {"red_test_positive", "red_test_negative"}
    assert run(["data", "convert", str(corpus_folder), "--out", str(tmp_path / "safe")]) == 4


def test_an_interrupt_that_falls_into_a_destructor_is_given_again() -> None:
    code = """
import os, signal, time
import pfl_audit.cli.main as cli

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in what it starts with &

class Doomed:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)

def command(*arguments, **options):
    Doomed()
    time.sleep(30)

cli.click_command = lambda: command
cli.main()
"""
    command = [sys.executable, "-c", code, "list"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=25)
    assert ended.returncode == 130
    assert ended.stderr.startswith("pfl-audit: interrupted; ")
