"""Hostile ``results.json`` of schema version 1, given to ``report``."""

from __future__ import annotations

import json
from typing import Any

from tests.hostile.case import Door
from tests.hostile.door_results import Change, at, results, write

DOOR = Door("results of version 1")


def version_1(change: Change = lambda found: None) -> dict[str, Any]:
    """What a small audit of schema version 1 wrote, after a change."""
    found = results() | {"schema_version": "1"}
    data, metric = found.pop("datasets")[0], found["checks"][0]["metrics"][0]
    del data["subject"], metric["format"], metric["role"]
    found["data"] = data
    change(found)
    return found


VERSION_1: dict[str, Change] = {
    "data that are a list": at("data", value=[1]),
    "data of null": at("data", value=None),
    "no data": lambda found: found.pop("data"),
    "a format that is a list": at("data", "format", value=["template"]),
    "parts that are a list": at("data", "parts", value=[1]),
    "a template without parts": at("data", "format", value="template"),
    "checks that are no list": at("checks", value={"x": 1}),
    "a check that is a text": at("checks", 0, value="x"),
    "metrics that are a text": at("checks", 0, "metrics", value="x"),
    "a metric that is a list": at("checks", 0, "metrics", 0, value=["x"]),
    "a name that is a list": at("checks", 0, "metrics", 0, "name", value=["gap"]),
    "a slice that is a list": at("checks", 0, "metrics", 0, "slice", value=["model"]),
    "an id that is a list": at("checks", 0, "id", value=["x"]),
}
for name, broken in VERSION_1.items():
    DOOR.add(name,
             lambda folder, broken=broken: (write(folder, json.dumps(version_1(broken))), ["report", "run"])[1], 2,
             says=("results.json",))  # fmt: skip
DOOR.add("as it was written", lambda folder: (write(folder, json.dumps(version_1())), ["report", "run"])[1], 0)
