from pathlib import Path

import pytest

from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import AuditError
from pfl_audit.models.protocol import Capability, DocumentModel
from pfl_audit.models.recorded import RecordedModel


def recorded(tmp_path: Path, *lines: str) -> RecordedModel:
    path = tmp_path / "answers.jsonl"
    path.write_text("\n".join(lines))
    return RecordedModel(path)


def test_capabilities_are_what_every_line_has(tmp_path: Path) -> None:
    plain = recorded(tmp_path, '{"id": "a", "answer": "x"}', '{"id": "b", "answer": "y", "confidence": 0.5}')
    assert isinstance(plain, DocumentModel)
    assert plain.capabilities == {Capability.ANSWER}
    full = recorded(tmp_path, '{"id": "a", "answer": "x", "confidence": 1, "loss": 0.1}')
    assert full.capabilities == {Capability.ANSWER, Capability.CONFIDENCE, Capability.LOSS}


def test_answers_go_by_id(tmp_path: Path, red: Corpus) -> None:
    first, second = red.queries[:2]
    model = recorded(tmp_path, f'{{"id": "{first.id}", "answer": "x"}}')
    assert model.respond([first])[0].answer == "x"
    with pytest.raises(AuditError, match="has no answer to query"):
        model.respond([second])


def test_losses_of_tokens_are_optional(tmp_path: Path, red: Corpus) -> None:
    first, second = red.queries[:2]
    lines = (
        f'{{"id": "{first.id}", "answer": "x", "loss": 0.3, "token_losses": [0.1, 0.5]}}',
        f'{{"id": "{second.id}", "answer": "x", "loss": 0.3}}',
    )
    model = recorded(tmp_path, *lines)
    known, unknown = model.respond([first, second])
    assert known.token_losses == pytest.approx((0.1, 0.5))
    assert (known.tokens, unknown.tokens, unknown.token_losses) == (2, None, None)


@pytest.mark.parametrize(
    "line",
    [
        "not json",
        "[1]",
        '{"id": "a"}',
        '{"id": "a", "answer": "x", "confidence": 1.5}',
        '{"id": "a", "answer": "x", "loss": -1}',
        '{"id": "a", "answer": "x", "loss": NaN}',
        '{"id": "a", "answer": "x", "token_losses": 1}',
        '{"id": "a", "answer": "x", "token_losses": []}',
        '{"id": "a", "answer": "x", "token_losses": [1, null]}',
        '{"id": "a", "answer": "x", "token_losses": [1, -1]}',
        '{"id": "a", "answer": "\\ud800"}',
    ],
)
def test_bad_lines_are_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(AuditError, match=r"answers\.jsonl line 2"):
        recorded(tmp_path, '{"id": "b", "answer": "y"}', line)


def test_missing_or_empty_file(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="does not exist"):
        RecordedModel(tmp_path / "missing.jsonl")
    with pytest.raises(AuditError, match="holds no answer"):
        recorded(tmp_path, "", "  ")


def test_two_answers_to_a_query(tmp_path: Path) -> None:
    line = '{"id": "a", "answer": "x", "loss": 0.5}'
    assert recorded(tmp_path, line, line).describe()["notes"] == ["1 recorded answers"]
    with pytest.raises(AuditError, match=r"answers\.jsonl line 2: its query has another answer further up"):
        recorded(tmp_path, line, '{"id": "a", "answer": "y", "loss": 0.5}')
