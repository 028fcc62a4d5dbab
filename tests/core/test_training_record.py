import json
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.core.results import Target
from pfl_audit.core.training_record import public_record, read_training
from pfl_audit.files import write_json
from pfl_audit.privacy.mechanism import ADJACENCY, SECRET_NOISE
from pfl_audit.privacy.record_text import without_free_text
from tests.privacy.test_guarantee import CLAIM
from tests.privacy.training_records import mechanism_of_claim, record_of


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
    record, review = read(tmp_path, json.dumps(record_of(CLAIM)))
    assert record == record_of(CLAIM)
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


NAMED = "SecretCorp"


def test_of_a_record_only_numbers_and_words_of_ours_travel(tmp_path: Path) -> None:
    texts = dict.fromkeys(("unit", "adjacency", "accountant"), f"add {NAMED}")
    claim = {**CLAIM, **texts, "noise_generator": f"cryptographic: {NAMED}", "mechanism": {NAMED: NAMED}}
    record = {
        "mode": "fl-dp",
        "task": NAMED,
        "privacy": claim,
        "rounds": 10,
        "clients": [NAMED],
        "data": {"providers": 120, "path": f"/home/{NAMED}", NAMED: 1},
        "history": [{NAMED: 3}],
        "notes": [NAMED],
        "identity": {"start": {f"{NAMED}.bin": "0"}},
        NAMED: NAMED,
    }
    path = tmp_path / "training.json"
    write_json(path, record)
    facts, review = public_record(path)
    assert facts == {"mode": "fl-dp", "rounds": 10, "data": {"providers": 120}}
    assert review is not None
    assert review.claim is not None
    assert review.worth == "unknown"  # a mechanism that is none
    assert NAMED not in review.model_dump_json()
    named = mechanism_of_claim(CLAIM)
    named["phases"][0]["parts"][-1]["strategy"] = NAMED
    write_json(path, {**record, "privacy": {**claim, "mechanism": named}})
    _, review = public_record(path)
    assert review is not None
    assert review.worth == "unknown"  # its settings are none
    assert NAMED not in review.model_dump_json()


@pytest.mark.parametrize(("said", "shown"), [("none, at " + NAMED, "none: trained"), ("DP by " + NAMED, "in words")])
def test_a_sentence_about_privacy_is_told_in_our_words(tmp_path: Path, said: str, shown: str) -> None:
    write_json(tmp_path / "training.json", {"privacy": said})
    facts, review = public_record(tmp_path / "training.json")
    assert facts is not None
    assert facts["privacy"].startswith(shown)
    assert NAMED not in str(facts)
    assert review is None


def test_a_claim_in_our_words_is_left_as_it_is() -> None:
    ours = {**CLAIM, "adjacency": ADJACENCY, "noise_generator": SECRET_NOISE}
    assert without_free_text(ours) == ours
