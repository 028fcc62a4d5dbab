"""Packages that the pins bring together work together."""

import re
import shutil
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from transformers import AutoTokenizer

ROOT = Path(__file__).parents[2]


def test_a_folder_with_spiece_model_alone_has_a_tokenizer(tmp_path: Path) -> None:
    """sentencepiece's generated code asks for a protobuf of its own or later; 0.2.3 for 7, which flwr excludes."""
    shutil.copy(ROOT / "fixtures/vt5-finetuned/spiece.model", tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "t5"}')
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert len(tokenizer) == 1000 + 100  # pieces, and T5's extra ids
    assert tokenizer.decode(tokenizer("Invoice total", add_special_tokens=False)["input_ids"]) == "Invoice total"


def test_what_breaks_the_pair_is_excluded() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    asked = [Requirement(text) for text in extras["flower"]]
    (pieces,) = [one for one in asked if one.name == "sentencepiece"]
    assert not pieces.specifier.contains("0.2.3")
    assert pieces.specifier.contains("0.2.2")


HOLES = re.findall(
    r"^\| ([\w-]+) \| ([\d.]+) \| [^|]+ \| (CVE-.+) \|$", (ROOT / "SECURITY.md").read_text(), re.MULTILINE
)
"""Package, floor, and text with the holes below it, of each row of the table in SECURITY.md."""


def asked() -> dict[str, Requirement]:
    """Requirements of ``pyproject.toml``, by name; where it asks twice, the one with a floor."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    every = [Requirement(text) for text in [*extras, *project["dependencies"]]]
    return {canonicalize_name(one.name): one for one in every}


def pins() -> dict[str, Version]:
    lines = [line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line]
    return {canonicalize_name(name): Version(number) for name, number in lines}


def floor_of(one: Requirement) -> Version | None:
    return max((Version(part.version) for part in one.specifier if part.operator in (">=", "==")), default=None)


@pytest.mark.parametrize(("name", "floor", "holes"), HOLES, ids=[name for name, _, _ in HOLES])
def test_a_floor_is_above_the_known_holes(name: str, floor: str, holes: str) -> None:
    fixed = [Version(number) for number in re.findall(r"\(([\d.]+)(?:,[^)]*)?\)", holes)]
    assert fixed
    assert floor_of(asked()[name]) == Version(floor) >= max(fixed)


def locked() -> dict[str, tuple[Version, int]]:
    """Version and number of hashes of each package in ``requirements.lock``, which the container installs."""
    parts = re.split(r"^(?=[\w.-]+==)", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE)[1:]
    found = {}
    for part in parts:
        match = re.match(
            r"([\w.-]+)==([\w.]+)(?: ; [^\\]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)\Z", part
        )
        assert match, part[:80]
        found[canonicalize_name(match[1])] = Version(match[2]), match[3].count("--hash")
    return found


def test_the_lock_has_the_pins_with_hashes_and_no_address() -> None:
    lock, pinned = locked(), pins()
    assert "://" not in (ROOT / "requirements.lock").read_text()
    assert all(hashes for _, hashes in lock.values())
    differs = [name for name, (number, _) in lock.items() if pinned.get(name, number) != number]
    assert not differs, "Run: make lock"


def test_the_lock_has_all_that_the_container_needs_and_one_opencv() -> None:
    """As far as the metadata of what is installed here tells."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    left, seen, lock = list(project["dependencies"]), set[str](), locked()
    for extra in ("documents", "endpoint", "lora"):
        left += project["optional-dependencies"][extra]
    while left:
        one = Requirement(left.pop())
        if str(one) not in seen and (one.marker is None or one.marker.evaluate({"extra": ""})):
            assert canonicalize_name(one.name) in lock, f"{one}: run make lock"
            left += requires(one.name) or ()
        seen.add(str(one))
    assert [name for name in lock if name.startswith("opencv")] == ["opencv-python-headless"]


def test_no_row_of_the_holes_is_left_out() -> None:
    table = (ROOT / "SECURITY.md").read_text()
    assert len(HOLES) == sum("CVE-" in line for line in table.splitlines() if line.startswith("|")) >= 9


def test_every_pin_is_at_least_its_floor_and_allowed() -> None:
    pinned = pins()
    for name, one in asked().items():
        if name != "pfl-audit":
            assert one.specifier.contains(pinned[name]), name
            assert one.specifier.contains(Version(version(name)).public), f"{name} as installed"
