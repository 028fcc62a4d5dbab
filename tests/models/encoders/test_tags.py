"""Tags of other people's checkpoints: their schemes, and labels that forms and model do not share."""

from pathlib import Path
from typing import Any

import pytest

from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.encoders.config import EncoderConfig
from pfl_audit.models.encoders.labels import known_label, labels_of, map_labels
from pfl_audit.models.encoders.model import EncoderModel
from pfl_audit.models.encoders.tags import field_parts
from pfl_audit.models.samples import IGNORED
from tests.models.encoders.makers import config, encoder, form, tokenizer

SEVEN = ("O", "B-HEADER", "I-HEADER", "B-QUESTION", "I-QUESTION", "B-ANSWER", "I-ANSWER")
FUNSD = ("HEADER", "QUESTION", "ANSWER")


def page(*labels: str) -> Form:
    """name : | anna smith ##s | 12 / 03 / 20 ##20 | 1 , 234 ##7 eur, with other labels."""
    made = form()
    fields = [Field(field.id, label, field.start, field.stop) for field, label in zip(made.fields, labels, strict=True)]
    return Form(made.document, tuple(fields), made.links)


def tagged(made: EncoderConfig, *labels: str) -> str:
    """The tags of the tokens."""
    (window,) = tokenizer().windows(page(*labels), 40)
    classes = labels_of(window, made).classes
    assert classes is not None
    return " ".join(made.tags[number] if number != IGNORED else "-" for number in classes)


def funsd(**more: Any) -> EncoderConfig:
    return config("layoutlm", "ee-bio", labels=FUNSD, tags=SEVEN, **more)


def test_the_seven_tags_of_funsd_read_other_as_outside() -> None:
    named = tagged(funsd(), "question", "answer", "other", "header")
    assert named == (
        "- B-QUESTION I-QUESTION B-ANSWER I-ANSWER I-ANSWER O O O O O O O O B-HEADER I-HEADER I-HEADER I-HEADER "
        "I-HEADER -"
    )


def test_bioes_goes_by_words() -> None:
    tags = ("O", *(f"{part}-{label}" for label in FUNSD for part in "BIES"))
    named = tagged(config("layoutlm", "ee-bio", labels=FUNSD, tags=tags), "question", "answer", "other", "header")
    assert named.startswith("- B-QUESTION E-QUESTION B-ANSWER E-ANSWER E-ANSWER O O")
    assert named.endswith("B-HEADER I-HEADER I-HEADER I-HEADER E-HEADER -")
    alone = tagged(config("layoutlm", "ee-bio", labels=FUNSD, tags=tags), "other", "other", "answer", "other")
    assert alone.split()[7:13] == ["S-ANSWER"] * 6


def test_bilou_is_bioes_by_other_letters() -> None:
    tags = ("O", *(f"{part}-{label}" for label in FUNSD for part in "BILU"))
    made = config("layoutlm", "ee-bio", labels=FUNSD, tags=tags)
    assert tagged(made, "question", "answer", "answer", "x").split()[1:13] == [
        *("B-QUESTION", "L-QUESTION", "B-ANSWER", "L-ANSWER", "L-ANSWER", "O"),
        *["U-ANSWER"] * 6,
    ]


@pytest.mark.parametrize("tags", [("O", "I-HEADER", "I-QUESTION", "I-ANSWER"), ("other", *FUNSD)])
def test_io_has_one_tag_for_every_token(tags: tuple[str, ...]) -> None:
    made = config("layoutlm", "ee-bio", labels=FUNSD, tags=tags)
    named = tagged(made, "other", "answer", "other", "header").replace("I-", "")
    assert named == f"- {tags[0]} {tags[0]} " + "ANSWER " * 3 + f"{tags[0]} " * 8 + "HEADER " * 5 + "-"


def test_prefixes_of_a_field() -> None:
    words = [4, 4, 5, 6, 6]
    assert field_parts("BI", words) == list("BIIII")
    assert field_parts("BIES", words) == list("BIIEE")
    assert field_parts("BILU", words) == list("BIILL")
    assert field_parts("BIE", [3, 3]) == ["B", "I"]
    assert field_parts("BIES", [3, 3]) == ["S", "S"]
    assert field_parts("I", words) == list("IIIII")
    assert field_parts([""], words) == [""] * 5
    assert field_parts("B", [1, 1]) == ["B", "B"]


def test_a_scheme_without_our_section_opens(tmp_path: Path) -> None:
    import json

    from pfl_audit.models.encoders.checkpoint import open_encoder, save_encoder
    from pfl_audit.models.encoders.config import SECTION

    tags = ("S-A", "O", "E-A", "B-A", "I-A")
    save_encoder(encoder("layoutlm", "ee-bio", labels=("A",), tags=tags), tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    del values[SECTION]
    (tmp_path / "config.json").write_text(json.dumps(values))
    opened = open_encoder(tmp_path)
    assert (opened.config.labels, opened.config.tags) == (("A",), tags)


def test_labels_are_matched_where_that_is_plain() -> None:
    made = config("bert", "ee-bio", labels=("Net_Amount", "date", "DATE"))
    assert known_label("net amount", made) == "Net_Amount"
    assert known_label("date", made) == "date", "the exact name goes first"
    assert known_label("iban", made) is None
    with pytest.raises(AuditError, match=r"'Date' may be any of date, DATE.*--label-map"):
        known_label("Date", made)
    assert known_label("question", config("bros", "ee-spade", labels=("B-QUESTION",))) == "B-QUESTION"


@pytest.mark.parametrize("tag", ["QUESTION", "question", "B-QUESTION", "i-question"])
def test_a_label_map_goes_first(tag: str) -> None:
    made = map_labels(funsd(), {"key": tag, "header": "o"})
    assert tagged(made, "key", "answer", "header", "question").split() == [
        *("-", "B-QUESTION", "I-QUESTION", "B-ANSWER", "I-ANSWER", "I-ANSWER"),
        *["O"] * 8,
        *("B-QUESTION", *["I-QUESTION"] * 4, "-"),
    ]


def test_a_label_map_to_what_is_not_there_is_one_clear_line() -> None:
    with pytest.raises(
        UsageError, match=r"tag 'KEY', which the model does not have\. Choose among: O, HEADER, QUESTION"
    ):
        map_labels(funsd(), {"key": "KEY"})
    with pytest.raises(UsageError, match="a model for mlm has no tags"):
        map_labels(config("bert", "mlm"), {"key": "O"})


def test_spade_has_no_class_and_no_predecessors_for_other_labels() -> None:
    made = config("bros", "ee-spade", labels=("question", "answer"), tags=("others", "question", "answer"))
    (window,) = tokenizer().windows(page("question", "answer", "other", "header"), 40)
    labels = labels_of(window, made)
    assert labels.classes is not None
    assert labels.pointers is not None
    assert [token for token, number in enumerate(labels.classes) if number > 0] == [1, 3]
    assert [token for token, target in enumerate(labels.pointers) if target >= 0] == [2, 4, 5]


def test_a_model_says_which_labels_it_does_not_have() -> None:
    def model(**label_map: str) -> EncoderModel:
        return EncoderModel(
            encoder("layoutlm", "ee-bio", labels=FUNSD, tags=SEVEN), {}, Path("somewhere"), label_map=label_map
        )

    assert model().require_labels({"question", "other", "answer"}) == ("other",)
    assert model(other="HEADER").require_labels({"other"}) == ()
    assert len({model().fingerprint, model(other="HEADER").fingerprint, model(other="O").fingerprint}) == 3
    with pytest.raises(AuditError, match=r"no field label of the forms \(date, total\), only HEADER, QUESTION, ANSWER"):
        model().require_labels({"total", "date"})
    assert EncoderModel(encoder("bert", "el"), {}, Path("somewhere")).require_labels({"x"}) == ()
