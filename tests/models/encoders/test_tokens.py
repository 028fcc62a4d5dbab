import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pfl_audit.documents.document import Document, as_boxes
from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import sha256_json
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.encoders.vocabulary import SPECIAL, Casing
from tests.models.encoders.makers import PIECES, form, tokenizer

TOKENS = tokenizer()


def spelled(ids: np.ndarray) -> str:
    return " ".join(TOKENS.vocabulary[token] for token in ids)


def test_a_form_in_one_window() -> None:
    (window,) = TOKENS.windows(form(), 40)
    assert spelled(window.ids) == ("[CLS] name : anna smith ##s date 12 / 03 / 20 ##20 total 1 , 234 ##7 eur [SEP]")
    assert [(span.field.id, span.start, span.stop) for span in window.spans] == [
        ("a", 1, 3),
        ("b", 3, 6),
        ("c", 7, 13),
        ("d", 14, 19),
    ]
    assert window.words.tolist() == [-1, 0, 1, 2, 3, 3, 4, 5, 5, 5, 5, 5, 5, 6, 7, 7, 7, 7, 8, -1]
    assert window.boxes[0].tolist() == [0, 0, 0, 0]
    assert window.boxes[-1].tolist() == [1, 1, 1, 1]
    assert np.array_equal(window.boxes[4], form().document.boxes[3])


def test_windows_go_on_where_the_last_one_ended_and_cut_no_field() -> None:
    windows = TOKENS.windows(form(), 10)
    assert [spelled(window.ids[1:-1]) for window in windows] == [
        "name : anna smith ##s date",
        "12 / 03 / 20 ##20 total",
        "1 , 234 ##7 eur",
    ]
    assert [[span.field.id for span in window.spans] for window in windows] == [["a", "b"], ["c"], ["d"]]
    assert [window.number for window in windows] == [0, 1, 2]


def test_a_field_longer_than_a_window_is_in_none() -> None:
    windows = TOKENS.windows(form(), 7)
    assert [span.field.id for window in windows for span in window.spans] == ["a", "b", "d"]
    assert "20 ##20" in " ".join(spelled(window.ids[1:-1]) for window in windows)


@settings(max_examples=60, deadline=None)
@given(
    words=st.lists(st.sampled_from([*PIECES, "", "\x01", "xyz", "smiths", "12/03/2020", "\ud800"]), max_size=30),
    cuts=st.lists(st.integers(0, 30), max_size=8, unique=True),
    longest=st.integers(3, 20),
)
def test_windows_hold_every_token_once_and_every_field_whole(words: list[str], cuts: list[int], longest: int) -> None:
    edges = sorted(min(cut, len(words)) for cut in cuts)
    spans = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False) if a < b]
    fields = tuple(Field(str(number), "x", *span) for number, span in enumerate(spans))
    page = Form(Document("d_1", "p", tuple(words), as_boxes(np.zeros((len(words), 4)), len(words))), fields)
    windows = TOKENS.windows(page, longest)
    assert all(3 <= len(window.ids) <= longest for window in windows)
    tokens = [token for word in words for token in TOKENS.encode(word)]
    assert [token for window in windows for token in window.ids[1:-1].tolist()] == tokens
    found = {}
    for window in windows:
        for span in window.spans:
            found[span.field] = window.ids[span.start : span.stop].tolist()
            assert set(window.words[span.start : span.stop]) <= set(range(span.field.start, span.field.stop))
    for field in fields:
        own = [token for word in words[field.start : field.stop] for token in TOKENS.encode(word)]
        assert found.get(field) == (own if 0 < len(own) <= longest - 2 else None)


def test_a_window_without_room_is_refused() -> None:
    with pytest.raises(UsageError, match="holds no word"):
        TOKENS.windows(form(), 2)


def test_scrubbing_leaves_nothing_of_the_field() -> None:
    (window,) = TOKENS.windows(form(), 40)
    blank, truth = TOKENS.scrub(window, window.spans[1])
    assert spelled(np.array(truth)) == "anna smith ##s"
    assert set(blank.window.ids[3:6]) == {TOKENS.mask}
    assert np.array_equal(np.delete(blank.window.ids, [3, 4, 5]), np.delete(window.ids, [3, 4, 5]))
    assert np.array_equal(blank.patch, form().document.boxes[2:4])
    assert blank.length == 3
    assert spelled(window.ids[3:6]) == "anna smith ##s", "the window itself stays"


@pytest.mark.parametrize("word", SPECIAL)
def test_special_tokens_in_a_text_are_words(word: str) -> None:
    assert not set(TOKENS.encode(word)) & {TOKENS.pad, TOKENS.cls, TOKENS.sep, TOKENS.mask}


def test_ordinary_tokens_are_those_that_words_are_made_of() -> None:
    assert [TOKENS.vocabulary[token] for token in TOKENS.ordinary] == PIECES


def test_a_trained_vocabulary_opens_again_and_is_transformers_own(tmp_path: Path) -> None:
    from transformers import BertTokenizerFast

    texts = ["Invoice 12/03/2020 Café", "total amount 1,234.56 EUR invoice", "[MASK] invoice total \ud800"]
    made = FormTokenizer.train(texts, 200, tmp_path)
    opened = FormTokenizer.open(tmp_path)
    assert opened.vocabulary == made.vocabulary == FormTokenizer.train(texts, 200, tmp_path).vocabulary
    assert opened.fingerprint == made.fingerprint
    assert made.vocabulary[:5] == SPECIAL
    assert len(made.vocabulary) <= 200
    theirs = BertTokenizerFast.from_pretrained(tmp_path)
    for text in ("Invoice café 12/03/2020", "totals 1,2?", "unknown \u4e2d"):
        assert theirs(text, add_special_tokens=False)["input_ids"] == list(opened.encode(text))


def test_tokenizer_json_says_the_same_as_vocab_txt(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    cased = [*SPECIAL, "Total", "total", "##s"]
    pieces = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(cased)}, unk_token="[UNK]"))
    pieces.normalizer = normalizers.BertNormalizer(lowercase=False)
    pieces.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    pieces.save(str(tmp_path / "tokenizer.json"))
    opened = FormTokenizer.open(tmp_path)
    assert opened.vocabulary == tuple(cased)
    assert opened.encode("Totals totals") == (5, 7, 6, 7)
    opened.save(tmp_path / "again")
    assert FormTokenizer.open(tmp_path / "again").encode("Totals") == (5, 7)


WORDS = (
    "Größe",
    "MÜLLER",
    "straße",
    "Café",
    "ÉCOLE",
    "naïve",
    "中国",
    "A中b国",
    "İstanbul",
    "Zoë's",
    "e\u0301té",
    "Öl-Preis",
    "日本語",
)
LETTERS = sorted(
    {letter for word in WORDS for form in (word, word.lower()) for letter in form} | set("abcdefghijklmnopqrstuvwxyz")
)


@pytest.mark.parametrize("beside", ["vocab.txt", "tokenizer.json", "tokenizer.json of another casing"])
@pytest.mark.parametrize("lowercase", [None, True, False])
@pytest.mark.parametrize("accents", ["absent", None, True, False])
@pytest.mark.parametrize("chinese", [None, True, False])
def test_every_casing_is_that_of_transformers(beside, lowercase, accents, chinese, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    from transformers import BertTokenizerFast

    pieces = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS), "größe", "grosse", "muller", "müller", "cafe"]
    given = {"do_lower_case": lowercase, "tokenize_chinese_chars": chinese}
    settings = {key: value for key, value in given.items() if value is not None}
    settings |= {} if accents == "absent" else {"strip_accents": accents}
    if beside == "vocab.txt":
        (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    else:
        whole = Tokenizer(models.WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))
        whole.normalizer = normalizers.BertNormalizer()
        if beside != "tokenizer.json":  # what is not said beside it is BERT's own in transformers
            whole.normalizer = normalizers.BertNormalizer(
                lowercase=lowercase is None or not lowercase,
                strip_accents=None if accents == "absent" else not accents,
                handle_chinese_chars=chinese is None or not chinese,
            )
        whole.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        whole.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **settings}))
    theirs = BertTokenizerFast.from_pretrained(tmp_path)
    ours = FormTokenizer.open(tmp_path)
    expected = [tuple(theirs(word, add_special_tokens=False)["input_ids"]) for word in WORDS]
    assert [ours.encode(word) for word in WORDS] == expected
    ours.save(tmp_path / "again")
    again = FormTokenizer.open(tmp_path / "again")
    assert [again.encode(word) for word in WORDS] == expected
    assert again.fingerprint == ours.fingerprint


def test_casings_have_fingerprints_of_their_own() -> None:
    casings = [Casing(a, b, c) for a in (True, False) for b in (None, True, False) for c in (True, False)]
    assert len({FormTokenizer(TOKENS.vocabulary, casing=casing).fingerprint for casing in casings}) == 12
    stored = sha256_json([list(TOKENS.vocabulary), True])
    assert FormTokenizer(TOKENS.vocabulary).fingerprint == stored, "that of earlier versions"


@pytest.mark.parametrize("settings", [{"strip_accents": "no"}, {"do_lower_case": None}, {"tokenize_chinese_chars": 1}])
def test_a_casing_that_is_none_is_one_clear_line(settings: dict, tmp_path: Path) -> None:
    TOKENS.save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(AuditError, match=r"tokenizer_config.json: .* is neither true nor false"):
        FormTokenizer.open(tmp_path)


def good_json() -> dict:
    vocabulary = {piece: number for number, piece in enumerate([*SPECIAL, "a"])}
    return {"model": {"type": "WordPiece", "vocab": vocabulary}, "normalizer": {"type": "BertNormalizer"}}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda content: content["model"].update(type="Unigram"), "neither WordPiece nor"),
        (lambda content: content.update(normalizer={"type": "Replace"}), "not BERT's"),
        (lambda content: content["model"]["vocab"].update(a=9), "count from 0"),
        (lambda content: content["model"]["vocab"].pop("[PAD]"), "count from 0"),
        (lambda content: content["model"].update(vocab=[1]), "tokenizer.json"),
        (lambda content: content["model"]["vocab"].update({"a\nb": 6}), "line break"),
        (lambda content: content["model"]["vocab"].update({"a": None}), "tokenizer.json"),
        (lambda content: content.pop("model"), "tokenizer.json"),
    ],
)
def test_a_damaged_tokenizer_json_is_one_clear_line(tmp_path: Path, change, line: str) -> None:
    content = good_json()
    change(content)
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(AuditError, match=line):
        FormTokenizer.open(tmp_path)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\xff\xfe", "vocab.txt"),
        ("\n".join(SPECIAL).encode(), "no pieces"),
        ("\n".join([*SPECIAL[:4], "a"]).encode(), r"lacks \[MASK\]"),
        ("\n".join([*SPECIAL, "a", "a"]).encode(), "listed twice"),
    ],
)
def test_a_damaged_vocab_txt_is_one_clear_line(tmp_path: Path, content: bytes, line: str) -> None:
    (tmp_path / "vocab.txt").write_bytes(content)
    with pytest.raises(AuditError, match=line):
        FormTokenizer.open(tmp_path)


def test_a_folder_without_tokenizer_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="has no tokenizer"):
        FormTokenizer.open(tmp_path)


def test_windows_line_ends_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes("\r\n".join([*SPECIAL, "a"]).encode())
    assert FormTokenizer.open(tmp_path).vocabulary == (*SPECIAL, "a")
