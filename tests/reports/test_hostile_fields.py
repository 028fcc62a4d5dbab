"""Hostile text in every string field of results.json, found by walking its schema, is text on the page."""

import base64
import json
import re
from pathlib import Path

import pytest

from pfl_audit.core.comparison import compare
from pfl_audit.core.results import Results, read_results
from pfl_audit.reports import comparison
from pfl_audit.reports.html import to_html
from tests.reports.from_schema import filled
from tests.reports.test_html import tags

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></style>{{7*7}}\x1b[2J\u202e"
ALLOWED = {
    "html", "head", "meta", "title", "style", "body", "script", "header", "main", "section", "div", "span", "a", "p",
    "h1", "h2", "h3", "dl", "dt", "dd", "ul", "ol", "li", "b", "strong", "code", "pre", "br", "table", "caption",
    "thead", "tbody", "tfoot", "tr", "th", "td", "figure", "figcaption", "details", "summary", "img", "svg", "path",
    "text", "circle", "input", "label",
}  # fmt: skip
CASES = [
    *({"status": "ran", "kind": kind, "release": release} for kind, release in
      (("roc", "public-api"), ("line", "internal"), ("step", "open-weights"), ("scatter", "public-api"))),
    {"status": "skipped", "level": "unresolved"},
    {"status": "failed", "level": "none"},
    {"status": "ran", "level": "weak"},
    {"status": "ran", "level": "unresolved"},
]  # fmt: skip


def hostile(folder: Path, choose: dict[str, str], *, standing: bool) -> Results:
    value = filled(Results.model_json_schema(), HOSTILE, choose)
    if standing:  # a check of its own, not part of another
        value["checks"][0]["part_of"] = None
    (folder / "results.json").write_text(json.dumps(value), encoding="utf-8")
    return read_results(folder)


@pytest.mark.parametrize("standing", [True, False])
@pytest.mark.parametrize("choose", CASES, ids=str)
def test_no_field_becomes_markup(choose: dict[str, str], standing: bool, tmp_path: Path) -> None:
    found = hostile(tmp_path, choose, standing=standing)
    side_by_side = comparison.to_html(compare([(found, tmp_path)] * 2), tmp_path)
    for page in (to_html(found, tmp_path), side_by_side):
        named = tags(page)
        assert {name for name, _ in named} <= ALLOWED
        assert sum(name == "script" for name, _ in named) == 1
        assert sum(name == "style" for name, _ in named) == 1
        for _, attributes in named:
            assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert not set("\x1b\u202e") & set(page)
        assert "49\x1b" not in page
        assert "{{7*7}}" in page


def test_every_string_of_the_schema_is_reached(tmp_path: Path) -> None:
    """The filler leaves no field out: what it made names every property of every definition."""
    schema = Results.model_json_schema()
    value = json.dumps(filled(schema, HOSTILE))
    for definition in (schema, *schema["$defs"].values()):
        for name in definition.get("properties", {}):
            assert f'"{name}":' in value


def test_the_policy_allows_our_script_and_style_alone(tmp_path: Path) -> None:
    import hashlib

    page = to_html(hostile(tmp_path, {"status": "ran"}, standing=True), tmp_path)
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert "unsafe" not in policy[1]
    for kind in ("script", "style"):
        inline = re.search(rf"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        assert inline is not None
        digest = base64.b64encode(hashlib.sha256(inline[1].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy[1].replace("&#39;", "'")
