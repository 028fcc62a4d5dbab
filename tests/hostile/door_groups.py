"""``--groups``: a table of units that belong together, beside a corpus."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.hostile.case import Case, Door
from tests.hostile.files import sparse, two_providers

DOOR = Door("groups")
CHECK = ["data", "check", "red", "--groups", "groups.csv"]
SECRET = "SecretName"
_HEAD = b"unit,group\n"


def _table(content: bytes) -> Callable[[Path], list[str]]:
    def make(folder: Path) -> list[str]:
        two_providers(folder)
        (folder / "groups.csv").write_bytes(content)
        return CHECK

    return make


for _name, _content in {
    "a unit that the corpus has not": _HEAD + f"{SECRET},A\n".encode(),
    "an empty group": _HEAD + f"{SECRET},\n".encode(),
    "no column of groups": f"unit,{SECRET}\nAcme,A\n".encode(),
    "two columns of groups": f"unit,group,group\nAcme,A,{SECRET}\n".encode(),
    "an empty file": b"",
    "a head alone": _HEAD,
    "not UTF-8": _HEAD + b"Acme,\xff\xfe\n",
    "not Windows-1252": _HEAD + b"Acme,\x81\x8d\n",
    "UTF-16": "unit,group\nAcme,A\n".encode("utf-16"),
    "zero bytes": _HEAD + b"Ac\0me,A\n",
    "a quote that does not end": _HEAD + f'Acme,"{SECRET}\n'.encode() * 9,
    "a field of a megabyte": _HEAD + b"Acme," + b"x" * (1 << 20) + b"\n",
    "a group of 2,000 letters": _HEAD + b"Acme," + b"x" * 2000 + b"\n",
    "10,000 columns": b"unit,group," + b",".join(b"k%d" % n for n in range(10_000)) + b"\n",
    "300,000 rows": _HEAD + b"Acme,A\n" * 300_000,
}.items():
    DOOR.cases.append(Case(_name, DOOR.name, _table(_content), (2,), ("groups.csv",), (SECRET,)))


@DOOR.case(0)
def _100_000_groups_of_one_company(folder: Path) -> list[str]:
    return _table(_HEAD + b"".join(b"Acme,g%d\n" % number for number in range(100_000)))(folder)


@DOOR.case(0, silent=("\x1b",))
def _a_group_that_draws_on_the_terminal(folder: Path) -> list[str]:
    return [*_table(_HEAD + b"Acme,\x1b[2J\nAcme,\x1b[31mA\n")(folder), "--reveal"]


@DOOR.case(2, says=("groups.csv", "larger than"))
def _a_terabyte(folder: Path) -> list[str]:
    two_providers(folder)
    sparse(folder / "groups.csv", 1 << 40)
    return CHECK


@DOOR.case(2, says=("groups.csv", "named pipe"))
def _a_pipe(folder: Path) -> list[str]:
    two_providers(folder)
    os.mkfifo(folder / "groups.csv")
    return CHECK


@DOOR.case(4, says=("groups.csv", "does not exist"))
def _missing(folder: Path) -> list[str]:
    two_providers(folder)
    return CHECK
