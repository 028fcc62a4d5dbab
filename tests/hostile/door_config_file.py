"""``--config``: settings from a TOML file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Door
from tests.hostile.files import sparse

DOOR = Door("config file")
MAKE = ["data", "make-forms", "--out", "new", "--config", "audit.toml"]


def _text(text: str | bytes) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        (folder / "audit.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
        return MAKE

    return make


UNREADABLE = {
    "10^5 dotted levels": "a" + ".a" * 100_000 + " = 1",
    "30,000 dotted levels": "a" + ".a" * 30_000 + " = 1",
    "a table of 10^5 levels": "[a" + ".a" * 100_000 + "]",
    "lists 3,000 deep": "seed = " + "[" * 3000,
    "lists 10^5 deep on lines": "seed = [\n" + "[\n" * 30_000,
    "inline tables 1,000 deep": "seed = " + "{a=" * 1000,
    "an integer of 4,090 digits": "seed = " + "9" * 4090,
    "no TOML": "seed",
    "a key twice": "seed = 1\nseed = 2",
    "not UTF-8": b"seed = 1 # \xff",
    "UTF-16": "seed = 1".encode("utf-16"),
    "zero bytes": b"\0" * 1000,
    "a megabyte": "# " + "x" * 1_000_000,
}
for _name, _content in UNREADABLE.items():
    codes = (2, 4) if "digits" in _name else (2,)
    DOOR.add(_name, _text(_content), *codes, says=("audit.toml",))

WRONG = {
    "a date for a number": "seed = 2020-01-01",
    "a date and time for a number": "seed = 2020-01-01T00:00:00Z",
    "a time for a number": "private = 12:00:00",
    "a text for a number": 'seed = "many"',
    "a boolean for a number": "seed = true",
    "a fraction for a whole number": "seed = 1.5",
    "not a number for a number": "seed = nan",
    "infinity for a number": "seed = inf",
    "a list for a number": "seed = [1]",
    "a table for a number": "seed = {a = 1}",
    "a number below its range": "seed = -1",
    "a number above its range": "seed = 9999999999",
    "a number beyond 64 bits": "private = " + "9" * 40,
    "a hexadecimal number of 4,000 digits": "seed = 0x" + "f" * 4000,
    "a number for a switch": "quiet = 1",
    "a text for a switch": 'quiet = "no"',
    "a date for a path": "out = 2020-01-01",
    "a number for a path": "out = 3",
    "a setting that there is not": "sede = 1",
    "a table that there is not": "[data.make-from]\nseed = 1",
    "the file itself": 'config = "audit.toml"',
}
for _name, _content in WRONG.items():
    DOOR.add(_name, _text(_content), 4, says=("audit.toml", "'"))


@DOOR.case(0)
def _a_byte_order_mark(folder: Path) -> list[str]:
    counts = "private = 1\npublic = 1\nvalidation = 1\n"
    return _text(b"\xef\xbb\xbf" + counts.encode())(folder)


@DOOR.case(2, says=("audit.toml", "larger than"))
def _a_gigabyte(folder: Path) -> list[str]:
    sparse(folder / "audit.toml", 1 << 30)
    return MAKE


@DOOR.case(4, says=("audit.toml", "does not exist"))
def _missing(folder: Path) -> list[str]:
    return MAKE


@DOOR.case(2, says=("audit.toml", "folder"))
def _a_folder(folder: Path) -> list[str]:
    (folder / "audit.toml").mkdir()
    return MAKE


@DOOR.case(4)
def _a_zero_byte_in_a_path(folder: Path) -> list[str]:
    (folder / "audit.toml").write_text('path = "re\\u0000d"')
    return ["data", "check", "--config", "audit.toml"]
