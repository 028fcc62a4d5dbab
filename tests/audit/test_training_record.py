import json
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.audit.results import Target
from pfl_audit.audit.training_record import read_training
from pfl_audit.files import write_json
from tests.privacy.test_claim import CLAIM


def read(tmp_path: Path, text: str | bytes) -> tuple[dict[str, Any] | None, Any]:
    path = tmp_path / "training.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    record, review = read_training(path)
    target = Target(family="x", path="x", sha256="0", parameters=1, training_claim=record, claim_review=review)
    write_json(tmp_path / "results.json", target.model_dump(mode="json"))
    return record, review


def test_no_record(tmp_path: Path) -> None:
    assert read_training(tmp_path / "training.json") == (None, None)


def test_a_record_without_a_claim(tmp_path: Path) -> None:
    record, review = read(tmp_path, '{"mode": "central", "privacy": "none"}')
    assert record == {"mode": "central", "privacy": "none"}
    assert review is None


def test_a_record_with_a_claim(tmp_path: Path) -> None:
    record, review = read(tmp_path, json.dumps({"privacy": CLAIM}))
    assert record == {"privacy": CLAIM}
    assert review.worth == "weaker"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"privacy": {}}',
        '{"privacy": {"epsilon": NaN, "delta": Infinity}}',
        '{"privacy": {"\\ud800": "\\ud800"}}',
        '{"privacy": {"a": ' + "[" * 300 + "]" * 300 + "}}",
        '{"privacy": [' + "[" * 900 + "]" * 900 + "]}",
        '{"privacy": [' + "[" * 100_000,
        b"\xff\xfe\x00",
        b"{" + b" " * (5 << 20) + b"}",
    ],
    ids=range(10),
)
def test_a_broken_or_hostile_record_is_a_claim_that_cannot_be_read(text: str | bytes, tmp_path: Path) -> None:
    _, review = read(tmp_path, text)
    assert review.worth == "unknown"
    assert review.text.startswith("cannot be read")
    assert str(tmp_path) not in review.text
