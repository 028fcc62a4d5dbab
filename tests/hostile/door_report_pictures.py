"""Hostile pictures beside ``results.json``, which a report shows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from tests.hostile.case import Door
from tests.hostile.door_results import Made, at, changed, results, write

DOOR = Door("report pictures")


def _picture(make: Callable[[Path], None], name: str = "evidence/hostile.jpg") -> Made:
    def case(folder: Path) -> list[str]:
        changed(at("checks", 0, "evidence", 0, "picture", value=name))(folder)
        make(folder)
        return ["report", "run"]

    return case


def _is(content: bytes, name: str = "evidence/hostile.jpg") -> Callable[[Path], None]:
    return lambda folder: (folder / "run" / name).write_bytes(content) and None


_PLACE = "run/evidence/hostile.jpg"
PICTURES: dict[str, Made] = {
    "HTML": _picture(_is(b"<html><script>alert(1)</script></html>")),
    "SVG": _picture(_is(b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")),
    "half a JPEG": _picture(_is(b"\xff\xd8\xff\xe0\x00\x10JFIF")),
    "empty": _picture(_is(b"")),
    "pipe": _picture(lambda folder: os.mkfifo(folder / _PLACE)),
    "device": _picture(lambda folder: (folder / _PLACE).symlink_to("/dev/zero")),
    "link to itself": _picture(lambda folder: (folder / _PLACE).symlink_to("hostile.jpg")),
    "link outside": _picture(lambda folder: (folder / _PLACE).symlink_to("/etc/passwd")),
    "folder": _picture(lambda folder: (folder / _PLACE).mkdir()),
    "of 10 GB": _picture(lambda folder: (folder / _PLACE).touch() or os.truncate(folder / _PLACE, 10 << 30)),
    "NUL in its name": _picture(lambda folder: None, "evidence/a\x00.jpg"),
    "absolute": _picture(lambda folder: None, "/etc/passwd.jpg"),
    "above": _picture(lambda folder: None, "../run/../../x.jpg"),
    "no name": _picture(lambda folder: None, ""),
    "a name too long": _picture(lambda folder: None, "evidence/" + "a" * 280 + ".jpg"),
}
for name, made in PICTURES.items():
    DOOR.add(name, made, 0)


@DOOR.case(0)
def _a_picture_shown_ten_thousand_times(folder: Path) -> list[str]:
    value = results()
    value["checks"] = [{**value["checks"][0], "id": str(n), "curves": []} for n in range(100)]
    for check in value["checks"]:
        check["evidence"] = check["evidence"] * 100
    write(folder, json.dumps(value))
    noise = Image.effect_noise((1500, 1500), 100)
    noise.save(folder / "run/evidence/page.jpg", quality=95)
    return ["report", "run"]
