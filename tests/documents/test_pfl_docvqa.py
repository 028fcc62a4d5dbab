import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Membership
from pfl_audit.documents.readers import open_corpus
from pfl_audit.errors import AuditError

DOC = "0123456789abcdef01234567"
HEADER = {"creation_time": "2023", "version": "2.0.0", "split": "x", "has_answer": True}


def record(page: str = f"{DOC}_1", **changes: Any) -> dict[str, Any]:
    row = {
        "question": "What is the name of the provider?",
        "answers": "acme",
        "image_name": page,
        "ocr_tokens": ["Acme", "Invoice"],
        "ocr_normalized_boxes": [[0.1, 0.1, 0.2, 0.2], [0.3, 0.1, 0.5, 0.2]],
        "set_name": "red_test_positive",
        "provider": "Acme",
    }
    return {**row, **changes}


def write(path: Path, *rows: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    array = np.empty(len(rows), dtype=object)
    array[:] = rows
    np.save(path, array)


def picture(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 30), (200, 10, 10)).save(path)


def one(folder: Path, *rows: dict[str, Any], name: str = "red_test.npy", suffix: str = ".jpg") -> Corpus:
    write(folder / name, HEADER, *rows)
    picture(folder / f"images/{DOC}_1{suffix}")
    return open_corpus(folder, "all")


def test_reads_back_what_the_maker_wrote(corpus_folder: Path) -> None:
    corpus = open_corpus(corpus_folder)
    assert corpus.format == "pfl-docvqa"
    assert not corpus.problems
    splits = {document.split for document in corpus.documents}
    assert {f"blue_train_client_{client}" for client in range(3)} <= splits
    assert {
        "blue_valid",
        "blue_test_positive",
        "blue_test_negative",
        "red_test_positive",
        "red_test_negative",
    } <= splits
    assert {document.client for document in corpus.documents if "train" in document.split} == {0, 1, 2}
    assert (len(corpus.members()), len(corpus.non_members())) == (12, 11)  # one non-member is in no part


def test_red_and_blue_are_told_apart(corpus_folder: Path) -> None:
    red, blue = open_corpus(corpus_folder, "red"), open_corpus(corpus_folder, "blue")
    assert all(document.split.startswith("red") for document in red.documents)
    assert all(document.split.startswith("blue") for document in blue.documents)
    assert (len(red.members()), len(red.non_members())) == (10, 10)


def test_header_is_detected_and_rows_count_it(tmp_path: Path) -> None:
    with_header = one(tmp_path / "a", record())
    write(tmp_path / "b/red_test.npy", record())
    picture(tmp_path / f"b/images/{DOC}_1.jpg")
    without = open_corpus(tmp_path / "b")
    assert [q.id for q in with_header.queries] == [q.id for q in without.queries] == ["red_test_positive-0"]


@pytest.mark.parametrize("answers", ["acme", ["acme", "acme inc"], ["acme", ""]])
def test_answers_are_a_string_or_a_list(tmp_path: Path, answers: Any) -> None:
    corpus = one(tmp_path, record(answers=answers))
    assert corpus.queries[0].answers[0] == "acme"
    assert all(corpus.queries[0].answers)


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".JPG"])
def test_images_of_every_kind(tmp_path: Path, suffix: str) -> None:
    corpus = one(tmp_path, record(), suffix=suffix)
    image = corpus.documents[0].image
    assert image is not None
    assert image.open().size == (20, 30)


@pytest.mark.parametrize(
    "name",
    [
        "imdb/1.0/blue/blue_train_client_3.npy",
        "imdb_train_client_3.npy",
        "pfl/train/blue_train.npy",
        "train.npy",
        "imdb/1.0centralized/imdb_val.npy",
        "valid.npy",
        "shared/blue_train.npy",
        "blue/blue_test_negative.npy",
    ],
)
def test_names_of_blue(tmp_path: Path, name: str) -> None:
    corpus = one(tmp_path, record(set_name=None), name=name)
    assert len(corpus.queries) == 1
    assert len(open_corpus(tmp_path, "blue").queries) == 1
    assert not open_corpus(tmp_path, "red").queries


@pytest.mark.parametrize(
    "name",
    ["imdb/1.0/red/red_test_positive.npy", "pfl/test/red_test.npy", "SaTML_PMIA_test_nondp.npy", "test_positive.npy"],
)
def test_names_of_red(tmp_path: Path, name: str) -> None:
    one(tmp_path, record(), name=name)
    assert open_corpus(tmp_path, "red").members() == ("Acme",)
    assert not open_corpus(tmp_path, "blue").queries


def test_membership_by_file_name_and_by_label(tmp_path: Path) -> None:
    one(tmp_path / "a", record(set_name=None), name="red/red_test_negative.npy")
    assert open_corpus(tmp_path / "a").label("Acme") is Membership.NON_MEMBER
    one(tmp_path / "b", record(set_name=None, label=1), name="SaTML_PMIA_auxiliary_dp.npy")
    assert open_corpus(tmp_path / "b").label("Acme") is Membership.MEMBER


def test_membership_by_the_red_team_label_file(tmp_path: Path) -> None:
    one(tmp_path, record(set_name=None), name="SaTML_PMIA_test_nondp.npy")
    assert open_corpus(tmp_path, "red").label("Acme") is Membership.UNKNOWN
    labels = tmp_path / "SaTML_PMIA_label.json"
    labels.write_text(json.dumps({"dp": {"Acme": 1}, "nondp": {"Acme": 0}}))
    assert open_corpus(tmp_path, "red").label("Acme") is Membership.NON_MEMBER
    labels.write_text("[1]")
    with pytest.raises(AuditError, match="does not map"):
        open_corpus(tmp_path, "red")


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("doc2provider.json", {DOC: "Acme"}),
        ("red_doc2provider.json", {DOC: {"provider": "Acme"}}),
        ("provider2docs.json", {"Acme": [DOC]}),
        ("data_points.json", {"client_0": {"Acme": [1]}}),
        ("centralized_data_points.json", {"Acme": [1]}),
    ],
)
def test_provider_maps(tmp_path: Path, file: str, content: object) -> None:
    names = {"data_points.json": "blue_train_client_0.npy", "centralized_data_points.json": "train.npy"}
    tmp_path.joinpath(file).write_text(json.dumps(content))
    corpus = one(tmp_path, record(provider=None, set_name=None), name=names.get(file, "red_test_positive.npy"))
    assert corpus.providers == ("Acme",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"question": " "}, "question is empty"),
        ({"answers": ""}, "no answer"),
        ({"answers": None}, "neither a string nor a list"),
        ({"image_name": ["a", "b"]}, "multi-page"),
        ({"image_name": "ffffffffffffffffffffffff_1"}, "image is missing"),
        ({"ocr_tokens": ["one"]}, "1 words but 2 boxes"),
        ({"ocr_tokens": [["one"], "two"]}, "not a list of strings"),
        ({"ocr_normalized_boxes": [[0, 0, 10, 10], [20, 0, 30, 10]]}, "not shares of the page"),
        ({"ocr_normalized_boxes": [[0, 0, 1, float("nan")], [0, 0, 1, 1]]}, "not a finite number"),
        ({"provider": None}, "no map has the provider"),
    ],
)
def test_unusable_records_are_named_and_left_out(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    corpus = one(tmp_path, record(**change))
    assert not corpus.queries
    (problem,) = corpus.problems
    assert problem.record == "red_test.npy row 1"
    assert reason in problem.reason


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    row = record()
    del row["ocr_tokens"]
    assert "'ocr_tokens' is missing" in one(tmp_path, row).problems[0].reason


def test_no_ocr_words(tmp_path: Path) -> None:
    corpus = one(tmp_path, record(ocr_tokens=[], ocr_normalized_boxes=[]))
    assert corpus.documents[0].boxes.shape == (0, 4)


def test_a_provider_on_both_sides_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="row 2: its provider is labelled"):
        one(tmp_path, record(), record(question="Who?", set_name="red_test_negative"))


def test_the_same_question_in_two_files_counts_once(tmp_path: Path) -> None:
    write(tmp_path / "red_test.npy", HEADER, record())
    assert len(one(tmp_path, record(), name="red_test_positive.npy").queries) == 1


def test_question_ids_that_are_ours_already(tmp_path: Path) -> None:
    ids = ("x", "red_test_positive.npy row 3 x", "x")
    rows = [record(question_id=one, question=f"What is {number}?") for number, one in enumerate(ids)]
    assert len({query.id for query in one(tmp_path, *rows, name="red_test_positive.npy").queries}) == 3


def test_question_ids_that_count_anew_in_every_file(tmp_path: Path) -> None:
    write(tmp_path / "red_test_negative.npy", HEADER, record(f"{DOC}_2", question_id=0, provider="B", set_name=None))
    picture(tmp_path / f"images/{DOC}_2.jpg")
    corpus = one(tmp_path, record(question_id=0, set_name=None), name="red_test_positive.npy")
    assert len({query.id for query in corpus.queries}) == 2


def test_no_corpus_and_no_folder(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="is no corpus"):
        open_corpus(tmp_path)
    with pytest.raises(AuditError, match="does not exist"):
        open_corpus(tmp_path / "missing")


def test_a_truncated_image_is_read_as_far_as_it_goes(corpus_folder: Path, tmp_path: Path) -> None:
    source = next((corpus_folder / "images/red").glob("*.jpg"))
    target = tmp_path / f"images/{DOC}_1.jpg"
    corpus = one(tmp_path, record())
    shutil.copyfile(source, target)
    target.write_bytes(target.read_bytes()[:4000])
    image = corpus.documents[0].image
    assert image is not None
    assert image.open().size == (560, 792)


SECRET = "SecretName GmbH"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ocr_normalized_boxes": [[0, 0, 1, SECRET], [0, 0, 1, 1]]}, "the box of a word is not four numbers"),
        ({"ocr_tokens": SECRET}, "ocr_tokens is not a list of strings"),
        ({"answers": {SECRET: 1}}, "answers is neither a string nor a list"),
        ({"answers": SECRET * 20_000}, "answers holds a text of more than 1,000 letters"),
        ({"answers": [SECRET] * 101}, "a question has more than 100 answers"),
        ({"question": SECRET * 1_000}, "the question has more than 2,000 letters"),
        ({"question": f"{SECRET}\ud800"}, "a text in it is not valid Unicode (a lone surrogate)"),
        ({"ocr_tokens": [SECRET * 100, "a"]}, "ocr_tokens holds a text of more than 1,000 letters"),
        ({"ocr_tokens": [SECRET] * 20_001}, "ocr_tokens holds more than 20,000 words"),
        ({"ocr_tokens": [SECRET * 66] * 600}, "ocr_tokens holds more than 500,000 letters"),
        ({"provider": SECRET * 100}, "provider has more than 1,000 letters"),
        ({"set_name": SECRET * 100}, "set_name has more than 1,000 letters"),
        ({"question_id": [SECRET]}, "question_id is not a text"),
        ({"question_id": 10**5000}, "a number in question_id is too long"),
        ({"image_name": SECRET}, "its page image is missing"),
        ({"label": np.eye(2), "set_name": None}, "it is not of the right form"),
    ],
)
def test_a_problem_names_the_rule_and_never_the_value(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    (problem,) = one(tmp_path, record(**change)).problems
    assert problem.reason == reason


def test_an_image_that_is_no_regular_file(tmp_path: Path) -> None:
    write(tmp_path / "red_test.npy", record())
    (tmp_path / "images").mkdir()
    os.mkfifo(tmp_path / f"images/{DOC}_1.jpg")
    (problem,) = open_corpus(tmp_path).problems
    assert problem.reason == "its page image is not a regular file"


def test_a_special_file_as_imdb_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "red_test.npy")
    with pytest.raises(AuditError, match=r"red_test\.npy is a named pipe"):
        open_corpus(tmp_path)


def test_links_that_go_round_and_folders_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one(tmp_path, record())
    (tmp_path / "images/again").symlink_to(tmp_path)
    (tmp_path / "images/self.png").symlink_to("self.png")
    assert len(open_corpus(tmp_path).queries) == 1
    monkeypatch.setattr("pfl_audit.documents.readers.folder.MAX_FILES", 3)
    with pytest.raises(AuditError, match="holds more than 3 files"):
        open_corpus(tmp_path)
