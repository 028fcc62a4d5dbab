"""Folders that training goes on from, starts of training, and names that rule the terminal."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.second import FIXTURES, checkpoint, corpus, page, run, safetensors, write

DOOR = Door("second: training and names")
_MLM = ["train", "--task", "mlm", "--size", "tiny", "--epochs", "1", "--out", "out", "-q"]
_EVIL = "a\nall is well\x1b[2J\u202e\udcff"


@DOOR.case(2, says=("out",))
def _a_folder_to_go_on_from_that_is_nonsense(folder: Path) -> list[str]:
    write(folder / "out" / "training.json", '{"mode": ["mlm"], "history": ' + "[" * 90_000)
    for name in ("training-state.safetensors", "model.safetensors"):
        write(folder / "out" / name, safetensors({"step": {"dtype": "I64", "shape": [2**60], "data_offsets": [0, 8]}}))
    write(folder / "out" / "secret.key", b"")
    return [*_MLM, "--data", str(FIXTURES / "forms")]


@DOOR.case(2, says=("start",))
def _a_start_of_another_family(folder: Path) -> list[str]:
    checkpoint(folder, "donut").rename(folder / "start")
    arguments = [argument for argument in _MLM if argument not in ("--size", "tiny")]
    return [*arguments, "--data", str(FIXTURES / "forms"), "--from", "start"]


@DOOR.case(2, 4, says=("out",))
def _a_new_checkpoint_that_is_a_ring_of_links(folder: Path) -> list[str]:
    (folder / "out").symlink_to("out")
    return [*_MLM, "--data", str(FIXTURES / "forms")]


@DOOR.case(4, says=("--learning-rate",))
def _a_learning_rate_that_is_no_number(folder: Path) -> list[str]:
    return [*_MLM, "--data", str(FIXTURES / "forms"), "--learning-rate", "nan"]


@DOOR.case(2, 3, 4, silent=("\nall is well",))
def _a_corpus_whose_name_rules_the_terminal(folder: Path) -> list[str]:
    (folder / _EVIL).mkdir()
    return ["data", "check", _EVIL]


@DOOR.case(4, silent=("\nall is well",))
def _a_check_whose_name_rules_the_terminal(folder: Path) -> list[str]:
    write(folder / "answers.jsonl", '{"id": "q1", "answer": "x"}\n')
    corpus(folder, [page(number) for number in range(1, 17)])
    return ["mia", "--answers", "answers.jsonl", "--red", "red", "--check", f"membership.{_EVIL}", "--out", "out"]


@DOOR.case(0, 2, 4, silent=("\nall is well",))
def _a_run_whose_name_rules_the_terminal(folder: Path) -> list[str]:
    run(folder, f"given/{_EVIL}")
    return ["report", f"given/{_EVIL}"]


@DOOR.case(4)
def _a_name_longer_than_any_file_may_have(folder: Path) -> list[str]:
    return ["data", "check", "a" * 5000]
