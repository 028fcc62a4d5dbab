"""Hostile ``results.json``, and pictures beside it, given to ``report`` and ``compare``."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from tests.hostile.case import Door
from tests.hostile.gates import GATE, put_text

DOOR = Door("results")
SCRIPT = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}"
TERMINAL = "\x1b[2J\x1b]0;owned\x07\u202etxt.exe\u2066[bold red]:skull: [/]"

Made = Callable[[Path], list[str]]
Change = Callable[[dict[str, Any]], None]


def results() -> dict[str, Any]:
    """What a small audit writes."""
    numbers = [0.0, 0.4, 1.0]
    return {
        "schema_version": "2.2",
        "title": "Audit",
        "verdict": {"status": "leaks", "summary": "One leak.", "gate": copy.deepcopy(GATE)},
        "target": {"family": "vt5", "path": "model", "sha256": "0" * 64, "parameters": 3, "notes": []},
        "datasets": [
            {"subject": "questions", "format": "jsonl", "path": "red", "sha256": "0" * 64, "providers": 2, "members": 1,
             "non_members": 1, "documents": 2, "queries": 3, "parts": {}, "problems": []}
        ],
        "checks": [
            {
                "id": "membership.azk", "family": "membership", "title": "AZK", "status": "ran",
                "threat_model": {"knows": "a page"}, "settings": {"seeds": 5},
                "metrics": [
                    {"name": "balanced accuracy", "format": "percent", "role": "bounded", "value": 0.7,
                     "ci": [0.6, 0.8], "level": 0.95, "n": 9, "chance": 0.5, "slice": {"s": 5, "model": "target"}}
                ],
                "tables": [{"title": "Rows", "columns": ["a", "b"], "rows": [["x", 1], [None, 0.5]]}],
                "curves": [
                    {"title": "Curve", "kind": "line", "x_label": "x", "y_label": "y",
                     "series": [{"name": "one", "x": numbers, "y": numbers, "low": numbers, "high": numbers}]}
                ],
                "evidence": [{"title": "A page", "facts": {"asked": "x"}, "picture": "evidence/page.jpg"}],
                "finding": {"level": "leak", "text": "It leaks.", "remedy": "Mend it.", "metric": "balanced accuracy",
                            "slice": {"s": 5, "model": "target"}},
            }
        ],
        "provenance": {
            "command": "pfl-audit audit", "config": "audit.toml", "version": "0", "packages": {"numpy": "2"}, "seed": 0,
            "started": "2026-01-01", "seconds": 1.0, "resumed": False, "revealed": False,
        },
    }  # fmt: skip


def write(folder: Path, text: str | bytes, run: str = "run") -> None:
    """A run's folder with a picture and any results.json."""
    (folder / run / "evidence").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(folder / run / "evidence/page.jpg")
    (folder / run / "results.json").write_bytes(text.encode() if isinstance(text, str) else text)


def changed(change: Change, *arguments: str) -> Made:
    """A case: the results of a small audit after a change."""

    def make(folder: Path) -> list[str]:
        value = results()
        change(value)
        write(folder, json.dumps(value))
        return list(arguments or ("report", "run"))

    return make


def at(*place: str | int, value: Any) -> Change:
    """A change that sets one value."""

    def change(found: Any) -> None:
        for part in place[:-1]:
            found = found[part]
        found[place[-1]] = value

    return change


def curve(**parts: Any) -> Change:
    """A change of the curve."""
    return lambda found: found["checks"][0]["curves"][0].update(parts)


def series(**parts: Any) -> Change:
    """A change of the curve's series."""
    return lambda found: found["checks"][0]["curves"][0]["series"][0].update(parts)


def every_text(text: str) -> Change:
    """A change of every text that is free, keys of what maps names among them."""

    def change(found: dict[str, Any]) -> None:
        check = found["checks"][0]
        found["title"] = found["verdict"]["summary"] = text
        put_text(found["verdict"]["gate"], text)
        found["target"] |= {
            "family": text,
            "path": text,
            "sha256": text,
            "notes": [text],
            "training_claim": {"mode": text, "privacy": text, text: text},
        }
        found["target"]["claim_review"] = {"claim": None, "worth": "unknown", "text": text, "warnings": [text]}
        found["datasets"][0] |= {
            "subject": text,
            "path": text,
            "sha256": text,
            "problems": [text],
            "format": text,
            "facts": {text: text},
            "terms": {text: text},
        }
        found["provenance"] |= dict.fromkeys(("command", "config", "version", "started"), text)
        found["provenance"]["packages"] = {text: text}
        check |= {"id": text, "title": text, "threat_model": {text: text}, "settings": {text: text}}
        check["metrics"][0] |= {
            "name": text,
            "unit": text,
            "note": text,
            "method": text,
            "slice": {"model": text, text: text},
        }
        check["tables"] = [{"title": text, "columns": [text], "rows": [[text]], "note": text}]
        check["curves"][0] |= {"title": text, "x_label": text, "y_label": text}
        check["curves"][0]["series"][0]["name"] = text
        check["evidence"] = [{"title": text, "facts": {text: text}, "picture": text}]
        check["finding"] |= {"text": text, "remedy": text, "metric": text, "slice": {"model": text, text: text}}
        failed = {"id": f"b{text[1:]}", "family": text, "title": text, "status": "failed", "reason": text}
        found["checks"].append(failed)

    return change  # fmt: skip


def many(part: str, count: int) -> Change:
    """A change that repeats the first of a check's parts."""

    def change(found: dict[str, Any]) -> None:
        found["checks"][0][part] *= count

    return change


def more_checks(count: int) -> Change:
    """A change that repeats the check under other ids."""

    def change(found: dict[str, Any]) -> None:
        found["checks"] = [{**copy.copy(found["checks"][0]), "id": f"membership.{place}"} for place in range(count)]

    return change


NOT_READ: dict[str, Change] = {
    "curve without y": lambda found: found["checks"][0]["curves"][0]["series"][0].pop("y"),
    "curve without a name": lambda found: found["checks"][0]["curves"][0]["series"][0].pop("name"),
    "curve of texts": series(x=["a", "b", "c"]),
    "curve of numbers as texts": series(x=["0", "1", "2"]),
    "curve of lists": series(x=[[0], [1], [2]]),
    "curve of null": series(y=[None, None, None]),
    "curve of two lengths": series(x=[0.0, 1.0]),
    "curve with half an interval": lambda found: found["checks"][0]["curves"][0]["series"][0].pop("low"),
    "curve with a short interval": series(low=[0.0]),
    "curve with an unknown key": series(colour="red"),
    "curve that is no object": curve(series=["x"]),
    "curve of an unknown kind": curve(kind="pie"),
    "curve of a million points": series(x=[0] * 10**6, y=[0] * 10**6, low=None, high=None),
    "curve with many series": lambda found: found["checks"][0]["curves"][0]["series"].extend(
        found["checks"][0]["curves"][0]["series"] * 10**4
    ),
    "many curves": many("curves", 10**4),
    "many metrics": many("metrics", 10**5),
    "many tables": many("tables", 10**4),
    "many rows": lambda found: found["checks"][0]["tables"][0].update(rows=[["x", 1]] * 10**5),
    "a row of a million cells": lambda found: found["checks"][0]["tables"][0].update(rows=[[0] * 10**6]),
    "much evidence": many("evidence", 10**5),
    "a million facts": lambda found: found["checks"][0]["evidence"][0].update(facts={str(n): 0 for n in range(10**6)}),
    "many settings": at("checks", 0, "settings", value={str(n): 0 for n in range(10**5)}),
    "a setting of a million values": at("checks", 0, "settings", value={"x": [0] * 10**6}),
    "a setting nested deeply": at("checks", 0, "settings", value={"x": json.loads("[" * 200 + "]" * 200)}),
    "many checks": more_checks(10**4 + 1),
    "two checks of one id": lambda found: found["checks"].append(found["checks"][0]),
    "many problems": at("datasets", 0, "problems", value=["x"] * 10**6),
    "many data sets": lambda found: found.update(
        datasets=[{**found["datasets"][0], "subject": str(place)} for place in range(10**4)]
    ),
    "two data sets of one subject": lambda found: found["datasets"].append(found["datasets"][0]),
    "an unknown format": at("checks", 0, "metrics", 0, "format", value="roman"),
    "an unknown role": at("checks", 0, "metrics", 0, "role", value="decoy"),
    "a negative size": at("datasets", 0, "documents", value=-1),
    "a negative count": at("checks", 0, "metrics", 0, "n", value=-5),
    "a certainty of one": at("checks", 0, "metrics", 0, "level", value=1.0),
    "a certainty of nothing": at("checks", 0, "metrics", 0, "level", value=0.0),
    "an interval of one end": at("checks", 0, "metrics", 0, "ci", value=[0.5]),
    "an interval of texts": at("checks", 0, "metrics", 0, "ci", value=["a", "b"]),
    "a number that is none": at("checks", 0, "metrics", 0, "value", value=float("nan")),
    "a number without end": at("checks", 0, "metrics", 0, "ci", value=[0.0, float("inf")]),
    "none in a setting": at("checks", 0, "settings", value={"x": float("nan")}),
    "a number of 4,000 digits": at("target", "parameters", value=10**4000),
    "a number of 4,000 digits in a setting": at("checks", 0, "settings", value={"x": 10**4000}),
    "a time of 4,000 digits": at("provenance", "seconds", value=10**4000),
    "an unknown version": at("schema_version", value="3"),
    "a version that is a list": at("schema_version", value=["2"]),
    "an unknown level": at("checks", 0, "finding", "level", value="fine"),
    "an unknown status": at("verdict", "status", value="passed"),
    "an unknown key": at("secret", value="x"),
    "a title that is a number": at("title", value=5),
    "a title of null": at("title", value=None),
    "no checks": lambda found: found.pop("checks"),
    "checks that are no list": at("checks", value={"x": 1}),
    "a truth as a number": at("datasets", 0, "documents", value=True),
    "20 kB in every text": every_text("W" * 20_000),
    "a long title": at("title", value="W" * 20_000),
    "half a surrogate": at("title", value="\ud800"),
}  # fmt: skip
for name, broken in NOT_READ.items():
    DOOR.add(name, changed(broken), 2, says=("results.json",))


TEXTS: dict[str, str | bytes] = {
    "nothing": "",
    "no JSON": "{",
    "a list": "[]",
    "a text": '"x"',
    "null": "null",
    "nested deeply": "[" * 10**6,
    "objects nested deeply": '{"a":' * 10**6,
    "a number of 5,000 digits": '{"seed": ' + "9" * 5000 + "}",
    "bytes": bytes(range(256)) * 8,
    "UTF-16": json.dumps({"title": "x"}).encode("utf-16"),
    "four million lists": "[" + "[]," * (4 << 20) + "[]]",
    "four million objects as checks": '{"checks": [' + "{}," * (4 << 20) + "{}]}",
    "half a million names": "{" + ",".join(f'"k{n}": 0' for n in range(500_000)) + "}",
}
for name, text in TEXTS.items():
    DOOR.add(f"text: {name}", lambda folder, text=text: (write(folder, text), ["report", "run"])[1], 2,
             says=("results.json",))  # fmt: skip

SHOWN: dict[str, Change] = {
    "TeX everywhere": every_text(r"$\frac{$ \frac{1} $x$ ${}^"),
    "TeX over lines": curve(title=r"a $\frac{ " * 12, x_label=r"$\frac{ " * 30, y_label="$$\n$\\sqrt"),
    "markup everywhere": every_text(SCRIPT),
    "escape codes everywhere": every_text(TERMINAL),
    "NUL everywhere": every_text("a\x00b"),
    "long words everywhere": every_text("W" * 300),
    "wide letters everywhere": every_text("\u9f98" * 300),
    "marks everywhere": every_text("e" + "\u0301\u0489" * 149),
    "a million values of a line": series(x=[0] * 10**4, y=[n / 10**4 for n in range(10**4)], low=None, high=None),
    "ticks": lambda found: found["checks"][0]["curves"][0].update(
        series=[{"name": "x", "x": [n / 7 for n in range(10**4)], "y": [n % 7 for n in range(10**4)]}] * 4
    ),
    "scatter of 40,000": lambda found: found["checks"][0]["curves"][0].update(
        kind="scatter", series=[{"name": "x", "x": [n * 7 % 10**4 for n in range(10**4)], "y": list(range(10**4))}] * 4
    ),
    "ROC of tiny shares": lambda found: found["checks"][0]["curves"][0].update(
        kind="roc", series=[{"name": "x", "x": [0.0, 5e-324, 1e-300], "y": [0.0, 1e308, -1e308]}]
    ),
    "parts without private": lambda found: found["datasets"][0].update(subject="forms", parts={"public": 1}),
    "a template without parts": at("datasets", 0, "subject", value="gradients"),
    "gradients of no document": lambda found: found["datasets"][0].update(subject="gradients", documents=0, parts={}),
    "a check without a finding": at("checks", 0, "finding", value=None),
    "empty curves": lambda found: found["checks"][0].update(
        curves=[{"title": kind, "kind": kind, "x_label": "", "y_label": "", "series": made}
                for kind in ("line", "step", "roc", "scatter")
                for made in ([], [{"name": "", "x": [], "y": []}])]
    ),
    "largest numbers": lambda found: found["checks"][0].update(
        curves=[{"title": kind, "kind": kind, "x_label": "", "y_label": "",
                 "series": [{"name": "x", "x": [-1.7e308, 5e-324, 1.7e308], "y": [1.7e308, 0.0, -1.7e308]}]}
                for kind in ("line", "step", "roc", "scatter")],
        metrics=[{"name": "balanced accuracy", "value": 1.7e308, "ci": [-1.7e308, 1.7e308], "chance": -1.7e308,
                  "std": 1.7e308, "level": 0.999999, "seeds": 2**62, "n": 2**62, "slice": {"model": name, "s": 5}}
                 for name in ("target", "pre-trained")],
    ),
    "a number of every name": lambda found: found["checks"][0].update(
        metrics=[{"name": f"m{n}", "value": 0.5, "slice": {"s": n}} for n in range(1000)]
    ),
    "many drawn curves": lambda found: found.update(
        checks=[{**found["checks"][0], "id": str(n), "curves": found["checks"][0]["curves"] * 5} for n in range(9)]
    ),
}  # fmt: skip
for name, strange in SHOWN.items():
    DOOR.add(f"shown: {name}", changed(strange), 0)


def both(change: Change) -> Made:
    """A case of compare: the changed results beside good ones."""

    def make(folder: Path) -> list[str]:
        value = results()
        change(value)
        write(folder, json.dumps(value), "a")
        write(folder, json.dumps(results()), "b")
        return ["compare", "a", "b", "--out", "sides.html"]

    return make


for name in ("markup everywhere", "escape codes everywhere", "long words everywhere", "largest numbers"):
    DOOR.add(f"compared: {name}", both(SHOWN[name]), 0)
for name in ("curve without y", "a long title", "many checks", "two checks of one id", "an unknown version"):
    DOOR.add(f"compared: {name}", both(NOT_READ[name]), 2, says=("results.json",))


@DOOR.case(2, says=("results.json", "64 MiB"))
def _results_of_200_megabytes(folder: Path) -> list[str]:
    write(folder, "")
    os.truncate(folder / "run/results.json", 200 << 20)
    return ["report", "run"]


def _in_place(make: Callable[[Path], object], *codes: int) -> None:
    def case(folder: Path) -> list[str]:
        (folder / "run").mkdir()
        make(folder / "run/results.json")
        return ["report", "run"]

    DOOR.add(f"in place of results.json: {codes} {len(DOOR.cases)}", case, *codes, says=("results.json",))


_in_place(os.mkfifo, 2)
_in_place(lambda path: path.symlink_to("/dev/zero"), 2)
_in_place(lambda path: path.symlink_to("results.json"), 2)
_in_place(lambda path: path.symlink_to("gone.json"), 4)
_in_place(lambda path: path.mkdir(), 2)


@DOOR.case(4, says=("gone",))
def _no_folder(folder: Path) -> list[str]:
    return ["report", "gone"]


@DOOR.case(4, says=("gone",))
def _no_folder_to_compare(folder: Path) -> list[str]:
    write(folder, json.dumps(results()), "a")
    return ["compare", "a", "gone"]


@DOOR.case(2, says=("run", "results.json"))
def _no_results(folder: Path) -> list[str]:
    (folder / "run").mkdir()
    return ["report", "run"]


@DOOR.case(2, says=("run",))
def _a_file_as_the_folder(folder: Path) -> list[str]:
    (folder / "run").write_text("x")
    return ["report", "run"]


@DOOR.case(2, says=("report.html",))
def _a_folder_as_the_report(folder: Path) -> list[str]:
    write(folder, json.dumps(results()))
    (folder / "run/report.html").mkdir()
    return ["report", "run"]


@DOOR.case(0, 2)
def _a_link_as_the_report(folder: Path) -> list[str]:
    write(folder, json.dumps(results()))
    (folder / "mine").write_text("mine")
    (folder / "run/report.html").symlink_to("../mine")
    return ["report", "run"]


@DOOR.case(0)
def _a_folder_named_by_bytes_and_as_a_script(folder: Path) -> list[str]:
    for name in (b"javascript:alert(1)\xff\x1b[2J", b"b"):
        write(folder, json.dumps(results()), os.fsdecode(name))
    return ["compare", os.fsdecode(b"javascript:alert(1)\xff\x1b[2J"), "b", "--out", "sides.html"]


@DOOR.case(0)
def _a_folder_named_by_bytes_printed_as_json(folder: Path) -> list[str]:
    name = os.fsdecode(b"a\xff")
    write(folder, json.dumps(results()), name)
    return ["report", name, "--json"]


@DOOR.case(0)
def _a_hostile_matplotlibrc(folder: Path) -> list[str]:
    write(folder, json.dumps(results()))
    (folder / "matplotlibrc").write_text("text.usetex: True\nbackend: module://evil\nsavefig.dpi: 100000\n")
    (folder / "evil.py").write_text("open('ran', 'w')")
    return ["report", "run"]
