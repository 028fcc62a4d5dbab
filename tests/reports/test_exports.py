"""Files for other tools, read by those tools or their schemas."""

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import ModelCard
from jsonschema import Draft4Validator
from junitparser import Error, Failure, JUnitXml, Skipped

from pfl_audit.core.exports import EXPORTS, write_exports
from pfl_audit.core.results import Metric, Results
from pfl_audit.errors import UsageError
from pfl_audit.reports.csv_table import to_csv
from pfl_audit.reports.junit import to_junit
from pfl_audit.reports.markdown import md, to_model_card, to_summary
from pfl_audit.reports.sarif import location_of, to_sarif
from tests.reports.made import results, with_hostile_texts

SCHEMA = Path(__file__).parents[1] / "data/sarif/sarif-2.1.0-rtm.5.json"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def valid(text: str) -> dict[str, Any]:
    log: dict[str, Any] = json.loads(text)
    Draft4Validator(json.loads(SCHEMA.read_text())).validate(log)
    return log["runs"][0]


def test_sarif_is_valid_and_says_what_was_found() -> None:
    run = valid(to_sarif(results()))
    found = {(one["ruleId"], one["level"]) for one in run["results"]}
    assert found == {
        ("a.leak", "error"), ("a.weak", "warning"), ("c.waived", "error"), ("c.known", "error"),
        ("gate/a.leak", "error"), ("gate/c.waived", "error"),
    }  # fmt: skip
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[one["ruleIndex"]] == one["ruleId"] for one in run["results"])
    assert all(float(rule["properties"]["security-severity"]) > 0 for rule in run["tool"]["driver"]["rules"])
    places = {one["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for one in run["results"]}
    assert places == {"ci/audit.toml"}


def test_what_did_not_run_is_a_notification_and_no_result() -> None:
    (invocation,) = valid(to_sarif(results()))["invocations"]
    notices = {(one["descriptor"]["id"], one["level"]) for one in invocation["toolExecutionNotifications"]}
    assert notices == {
        ("b.skipped", "note"), ("b.skipped", "error"), ("b.failed", "error"), ("a.unresolved", "warning"),
        ("b.*", "error"),
    }  # fmt: skip
    assert invocation["exitCode"] == 1
    assert invocation["startTimeUtc"] == "2026-11-25T01:02:03Z"


def test_waivers_suppress_and_the_baseline_marks() -> None:
    entries = {one["ruleId"]: one for one in valid(to_sarif(results()))["results"]}
    assert {rule for rule, one in entries.items() if "suppressions" in one} == {"c.waived", "gate/c.waived"}
    assert {rule for rule, one in entries.items() if one["baselineState"] == "unchanged"} == {"c.known"}


def test_a_rounded_number_is_not_exported_as_an_exact_one() -> None:
    made = results()
    metrics = [Metric(name="ACC gap", value=0.1, ci=(0.0, 0.1), format="percent", step=0.05, bound="at most")]
    made = made.model_copy(update={"checks": [made.checks[0].model_copy(update={"metrics": metrics}), made.checks[1]]})
    rounded, exact = csv.DictReader(io.StringIO(to_csv(made)))
    assert (rounded["step"], rounded["bound"], exact["step"], exact["bound"]) == ("0.05", "at most", "", "")
    (index,) = yaml.safe_load(to_model_card(made).split("---")[1])["model-index"]
    first, second = index["results"][0]["metrics"]
    assert first["args"] == {"rounded to": 0.05, "bound": "at most"}
    assert "args" not in second


def test_fingerprints_are_those_of_the_finding_and_not_of_its_numbers() -> None:
    def fingerprints(value: float) -> list[str]:
        run = valid(to_sarif(results(value=value)))
        return [one["partialFingerprints"]["pflAudit/v1"] for one in run["results"]]

    assert fingerprints(0.04) == fingerprints(0.2)
    assert len(set(fingerprints(0.04))) == 6


@pytest.mark.parametrize(
    ("config", "path", "place"),
    [
        ("audit.toml", "m", "audit.toml"),
        (None, "models/tuned", "models/tuned/README.md"),
        ("/etc/audit.toml", "m", "audit.toml"),
        ("../../audit.toml", "m", "audit.toml"),
        ("javascript:alert(1)", "m", "alert%281%29"),
        ("a b/ü.toml", "m", "a%20b/%C3%BC.toml"),
    ],
)
def test_locations_are_relative(config: str | None, path: str, place: str) -> None:
    made = results()
    provenance = made.provenance.model_copy(update={"config": config})
    target = made.target.model_copy(update={"path": path})
    assert location_of(made.model_copy(update={"provenance": provenance, "target": target})) == place


def test_junit_is_read_by_junitparser(tmp_path: Path) -> None:
    (tmp_path / "junit.xml").write_text(to_junit(results()))
    suites = {suite.name: suite for suite in JUnitXml.fromfile(str(tmp_path / "junit.xml"))}
    checks = {case.name: [type(one) for one in case.result] for case in suites["checks"]}
    assert checks == {
        "a.leak": [Failure], "a.weak": [], "a.none": [], "a.unresolved": [Skipped], "a.part": [],
        "b.skipped": [Skipped], "b.failed": [Error], "c.waived": [], "c.known": [],
    }  # fmt: skip
    gates = [(case.classname, [type(one) for one in case.result]) for case in suites["gates"]]
    assert gates == [("required", [Error]), ("a.leak", [Failure]), ("a.none", []), ("b.*", [Error]), ("c.waived", [])]
    assert (suites["checks"].tests, suites["checks"].failures, suites["checks"].skipped) == (9, 1, 2)


def test_a_model_card_is_read_by_hugging_face(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text(to_model_card(results()))
    card = ModelCard.load(tmp_path / "README.md")
    assert card.data.eval_results is not None
    first = card.data.eval_results[0]
    assert (first.task_type, first.metric_type, first.metric_value) == ("document-question-answering", "acc_gap", 0.04)
    assert card.data.model_name == "models/tuned"
    assert "# Privacy" in card.text
    assert "no determination of anonymity" in card.text


def test_a_model_card_lists_no_number_of_an_unresolved_check() -> None:
    made = results()
    checks = [check.model_copy(update={"title": check.id}) for check in made.checks]
    card = to_model_card(made.model_copy(update={"checks": checks}))
    metrics = yaml.safe_load(card.split("---\n")[1])["model-index"][0]["results"][0]["metrics"]
    names = {metric["name"].split(":")[0] for metric in metrics}
    assert {"a.leak", "a.weak", "a.none"} <= names
    assert "a.unresolved" not in names
    assert "| unresolved | a.unresolved |" in card


def test_a_summary_has_the_gates_waivers_and_what_did_not_run() -> None:
    text = to_summary(results())
    assert text.startswith("## Privacy audit: Leaks")
    for part in ("| failed | a.leak |", "### Waivers", "2 checks did not run", "Required, and not audited: b.skipped."):
        assert part in text


@pytest.mark.parametrize(
    ("where", "hostile"), list(with_hostile_texts()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_hostile_texts_obey_nothing(where: str, hostile: Results) -> None:
    """Every text of results.json, which may come from elsewhere, in every format."""
    for name, export in EXPORTS.installed().items():
        text = export.text(hostile)
        assert not CONTROL.search(text), (where, name)
    valid(to_sarif(hostile))
    JUnitXml.fromstring(to_junit(hostile).encode())
    for text in (to_summary(hostile), to_model_card(hostile).split("---\n", 2)[2]):
        assert "<b>" not in text
        assert "](javascript" not in text
    front = yaml.safe_load(to_model_card(hostile).split("---\n")[1])
    assert set(front) == {"tags", "model-index"}


def test_markdown_is_escaped() -> None:
    assert md("a|b `c` <d> [e](f) *g* & @h") == r"a\|b \`c\` &lt;d> \[e\]\(f\) \*g\* &amp; &#64;h"
    assert md("- 1.5 - 2, www.x") == r"\- 1.5 - 2, www&#46;x"


def test_exports_are_written_on_request(tmp_path: Path) -> None:
    assert write_exports(results(), {"sarif": tmp_path / "new/a.sarif"}) == [tmp_path / "new/a.sarif"]
    valid((tmp_path / "new/a.sarif").read_text())
    with pytest.raises(UsageError, match="there is no export 'x'"):
        write_exports(results(), {"x": tmp_path / "x"})
