import json
from pathlib import Path

import pytest

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.writers import write_jsonl, write_questions
from pfl_audit.errors import AuditError

ROW = {
    "id": "a_1",
    "provider": "Acme",
    "words": ["Acme"],
    "boxes": [[0, 0, 0.5, 0.1]],
    "questions": [{"question": "What is the tax number?", "answers": ["12"]}],
    "membership": "member",
}


def write(folder: Path, *rows: object) -> Path:
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    (folder / "corpus.jsonl").write_text(text)
    return folder


def test_round_trip_keeps_everything(red: Corpus, tmp_path: Path) -> None:
    write_jsonl(red, tmp_path)
    again = open_corpus(tmp_path)
    assert again.digest == red.digest
    assert again.membership == {p: red.label(p) for p in red.providers}
    assert [q.key for q in again.queries] == [q.key for q in red.queries]


def test_the_file_itself_can_be_named(tmp_path: Path) -> None:
    assert open_corpus(write(tmp_path, ROW) / "corpus.jsonl").members() == ("Acme",)


def test_key_is_found_where_it_is_not_given(tmp_path: Path) -> None:
    assert open_corpus(write(tmp_path, ROW)).queries[0].key == "tax_number"


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("[1]", "not a JSON object"),
        ("{", "not valid JSON (at letter 3"),
        ({**ROW, "image": "../secret.png"}, "points outside"),
        ({**ROW, "image": "/etc/passwd"}, "points outside"),
        ({**ROW, "image": "missing.png"}, "image is missing"),
        ({**ROW, "provider": ""}, "provider is empty"),
        ({**ROW, "membership": "perhaps"}, "membership is none of member"),
        ({**ROW, "questions": [{"question": "x", "answers": []}]}, "no answer"),
        ({**ROW, "questions": []}, "no question"),
        ({k: v for k, v in ROW.items() if k != "words"}, "'words' is missing"),
    ],
)
def test_bad_lines_are_named_and_left_out(tmp_path: Path, row: object, reason: str) -> None:
    corpus = open_corpus(write(tmp_path, row, {**ROW, "id": "b_1"}))
    assert [document.id for document in corpus.documents] == ["b_1"]
    (problem,) = corpus.problems
    assert problem.record == "corpus.jsonl line 1"
    assert reason in problem.reason


def test_ids_must_differ(tmp_path: Path) -> None:
    asked = {"id": "q", "question": "Who?", "answers": ["acme"]}
    rows = [{**ROW, "questions": [asked]}, {**ROW, "id": "b_1", "questions": [asked]}, ROW]
    reasons = [problem.reason for problem in open_corpus(write(tmp_path, *rows)).problems]
    assert reasons == ["the id of a question is used before", "an earlier page has its id"]


def test_two_labels_for_a_provider(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="line 2: its provider has another membership"):
        open_corpus(write(tmp_path, ROW, {**ROW, "id": "b_1", "membership": "non_member"}))


def test_questions_for_a_vendor_hold_no_answer_and_no_name(red: Corpus, tmp_path: Path) -> None:
    query = next(query for query in red.queries if query.key == "total_amount")
    write_questions([query], tmp_path)
    row = json.loads((tmp_path / "questions.jsonl").read_text())
    assert set(row) == {"id", "question", "words", "boxes", "image"}
    assert (tmp_path / row["image"]).is_file()


ASKED = {"question": "Who?", "answers": ["acme"]}


@pytest.mark.parametrize(
    "change",
    [
        {"words": ["\ud800"]},
        {"provider": "Acme\udfff"},
        {"id": "\ud800"},
        {"questions": [{**ASKED, "question": "Who\ud800?"}]},
        {"questions": [{**ASKED, "id": "\ud800"}]},
        {"questions": [{**ASKED, "answers": "\ud800"}]},
    ],
)
def test_half_of_a_character_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    corpus = open_corpus(write(tmp_path, {**ROW, **change}, {**ROW, "id": "b_1"}))
    assert [problem.reason for problem in corpus.problems] == ["a text in it is not valid Unicode (a lone surrogate)"]
    assert [document.id for document in corpus.documents] == ["b_1"]


def test_characters_beyond_the_first_plane_are_text(tmp_path: Path) -> None:
    corpus = open_corpus(write(tmp_path, {**ROW, "words": ["\U0001f600"]}))
    assert corpus.documents[0].words == ("\U0001f600",)


def test_one_answer_needs_no_list(tmp_path: Path) -> None:
    corpus = open_corpus(write(tmp_path, {**ROW, "questions": [{**ASKED, "answers": "acme"}]}))
    assert corpus.queries[0].answers == ("acme",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"client": float("inf")}, "client is not a whole number"),
        ({"client": 1.5}, "client is not a whole number"),
        ({"client": -1}, "client is not a whole number"),
        ({"source": ["a"]}, "source is not a text"),
        ({"source": "a" * 1001}, "source is longer than 1,000 letters"),
        ({"words": "hello", "boxes": [[0, 0, 1, 1]] * 5}, "words is not a list"),
        ({"words": [None]}, "words is not a list of texts"),
        ({"boxes": {"a": 1}}, "boxes is not a list"),
        ({"boxes": [[10**400, 0, 0, 0]]}, "not four numbers"),
        ({"split": ["a"]}, "split is not a text"),
        ({"image": "a" * 300}, "image is missing"),
        ({"questions": {"question": "Who?"}}, "questions is not a list"),
        ({"questions": [{**ASKED, "answers": 3}]}, "answers is not a list"),
        ({"questions": [{**ASKED, "answers": " "}]}, "no answer"),
        ({"questions": [{**ASKED, "id": [1]}]}, "id is not a text"),
    ],
)
def test_fields_of_another_kind(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    (problem,) = open_corpus(write(tmp_path, {**ROW, **change}, {**ROW, "id": "b_1"})).problems
    assert problem.record == "corpus.jsonl line 1"
    assert reason in problem.reason
