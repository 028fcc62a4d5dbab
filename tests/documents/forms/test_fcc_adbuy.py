import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from pfl_audit.documents.forms.partition import partition_forms
from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.documents.forms.readers.fcc_adbuy import fields_of
from pfl_audit.documents.record_validation import RecordError


def row(name: str, **change: object) -> str:
    words = [[word, 10 * at, 0, 10 * at + 8, 5] for at, word in enumerate(["No.", "C1", "Ad", "Buyer", "1/2/20"])]
    record = {"id": name, "image": f"images/{name}.png", "width": 100, "height": 50, "station": None, "words": words}
    spans = {"contract_num": [[1, 2]], "advertiser": [[2, 4]], "flight_from": [[4, 5]], "gross_amount": []}
    return json.dumps({**record, "spans": spans, **change})


def test_every_place_of_a_label_becomes_a_field(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    Image.new("L", (100, 50)).save(tmp_path / "images/a.png")
    (tmp_path / "docs.jsonl").write_text(
        "\n".join([row("a"), row("b", station="KAAA"), row("c", spans={"x": [[4, 6]]}), row("d", words=[]), "[1]"])
    )
    corpus = open_forms(tmp_path)
    assert [(form.id, form.document.provider) for form in corpus.forms] == [("a_1", ""), ("b_1", "KAAA")]
    form = corpus.forms[0]
    assert [(field.id, field.label, form.text(field)) for field in form.fields] == [
        ("contract_num-1", "contract_num", "C1"),
        ("advertiser-1", "advertiser", "Ad Buyer"),
        ("flight_from-1", "flight_from", "1/2/20"),
    ]
    assert [(problem.record, problem.reason) for problem in corpus.problems] == [
        ("docs.jsonl line 5", "it is not a JSON object"),
        ("c", "field 1 does not lie among the words"),
        ("d", "it holds no words"),
    ]


@pytest.mark.parametrize("spans", [{"a": [[1]]}, {"a": [3]}, {"a": [[1, "Zyxwv"]]}, {"a": [[1, True]]}])
def test_spans_of_another_kind(spans: dict[str, object]) -> None:
    with pytest.raises(RecordError, match="a span is not a pair of word numbers"):
        fields_of(spans)


def test_two_labels_of_one_place_get_their_share() -> None:
    fields = fields_of({"to": [[3, 4], [9, 10]], "from": [[3, 4], [9, 10]]})
    assert [(field.label, field.start) for field in fields] == [("from", 3), ("to", 9)]


PLACES = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)).map(lambda at: [at[0], sum(at)]), max_size=8)


@given(st.dictionaries(st.sampled_from("abc"), PLACES))
def test_no_two_fields_share_a_word_and_none_that_could_stand_is_left(spans: dict[str, list[list[int]]]) -> None:
    fields = fields_of(spans)
    taken = [word for field in fields for word in range(field.start, field.stop)]
    assert len(taken) == len(set(taken))
    assert all([field.start, field.stop] in spans[field.label] for field in fields)
    for places in spans.values():
        assert all(set(range(*place)) & set(taken) for place in places)


@pytest.mark.slow
def test_the_real_documents() -> None:
    source = Path(__file__).parents[3].parent / "shared/data/fcc_adbuy"
    if not source.is_dir():
        pytest.skip("the fcc-adbuy documents are not on this machine")
    corpus = open_forms(source)
    assert (len(corpus.forms), len(corpus.problems)) == (592, 4)
    assert corpus.labels == ("advertiser", "contract_num", "flight_from", "flight_to", "gross_amount")
    parts = partition_forms(corpus, seed=0)
    assert [len(part) for part in (parts.validation, parts.public, parts.private)] == [118, 238, 236]
    assert parts.near_duplicates == 13
