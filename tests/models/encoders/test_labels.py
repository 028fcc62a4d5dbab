import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from pfl_audit.documents.forms.form import Form
from pfl_audit.models.encoders.labels import NOWHERE, labels_of, mask_tokens
from pfl_audit.models.encoders.tags import bio_tags, labels_of_tags, spade_tags
from pfl_audit.models.form_protocol import Window
from pfl_audit.models.samples import IGNORED
from tests.models.encoders.makers import config, form, tokenizer

TOKENS = tokenizer()


def window(**changes: object) -> Window:
    """[CLS] name : anna smith ##s date 12 / 03 / 20 ##20 total 1 , 234 ##7 eur [SEP]"""
    page = form()
    return TOKENS.windows(Form(page.document, page.fields, changes.get("links", page.links)), 40)[0]  # type: ignore[arg-type]


def test_names_of_classes() -> None:
    assert bio_tags(("x", "y")) == ("O", "B-x", "I-x", "B-y", "I-y")
    assert spade_tags(("x", "y")) == ("O", "x", "y")
    assert labels_of_tags(("I-a-b", "O", "B-a-b", "B-c"), "ee-bio") == ("a-b", "c")
    assert labels_of_tags(("O", "B-a"), "ee-spade") == ("B-a",)
    assert labels_of_tags(("B_A", "I_A", "others"), "ee-bio") == ("A",)
    assert labels_of_tags(("other", "question", "E-mail"), "ee-bio") == ("question", "E-mail")
    assert labels_of_tags(("others", "header", "other"), "ee-spade") == ("header", "other")
    with pytest.raises(ValueError, match="no class O"):
        labels_of_tags(("LABEL_0", "LABEL_1"), "ee-bio")
    with pytest.raises(ValueError, match="and classes without one"):
        labels_of_tags(("O", "B-a", "I-a", "b"), "ee-bio")


def test_bio_by_hand() -> None:
    made = config("bert", "ee-bio")
    labels = labels_of(window(), made)
    assert labels.classes is not None
    assert labels.pointers is None
    named = [made.tags[number] if number != IGNORED else "-" for number in labels.classes]
    assert named == [
        "-",
        "B-name",
        "I-name",
        "B-name",
        "I-name",
        "I-name",
        "O",
        "B-date",
        "I-date",
        "I-date",
        "I-date",
        "I-date",
        "I-date",
        "O",
        "B-amount",
        "I-amount",
        "I-amount",
        "I-amount",
        "I-amount",
        "-",
    ]


def spade_classes(**changes: Any) -> tuple[str, list[int]]:
    made = config("bert", "ee-spade", **changes)
    labels = labels_of(window(), made)
    assert labels.classes is not None
    assert labels.pointers is not None
    named = [made.tags[number] if number != IGNORED else "-" for number in labels.classes]
    return " ".join(named), labels.pointers.tolist()


def test_spade_of_the_release_by_hand() -> None:
    named, pointers = spade_classes()
    assert named == "- name O name O - O date - - - - - O amount - - - O -"
    x = NOWHERE
    assert pointers == [x, x, 1, x, 3, 4, x, x, 7, 8, 9, 10, 11, x, x, 14, 15, 16, 17, x]


def test_spade_of_all_tokens_by_hand() -> None:
    named, pointers = spade_classes(labelled_tokens="fields")
    assert named == "- name O name O O O date O O O O O O amount O O O O -"
    x, i = NOWHERE, IGNORED
    assert pointers == [i, x, 1, x, 3, 4, x, x, 7, 8, 9, 10, 11, x, x, 14, 15, 16, 17, i]


@pytest.mark.parametrize(
    ("labelled", "tokens"), [("word-starts", [1, 2, 3, 4, 6, 7, 13, 14, 18]), ("fields", [1, 3, 7, 14])]
)
def test_links_by_hand(labelled: str, tokens: list[int]) -> None:
    labels = labels_of(window(), config("bert", "el", labelled_tokens=labelled))
    assert labels.classes is None
    assert labels.pointers is not None
    assert labels.targets is not None
    assert np.flatnonzero(labels.targets).tolist() == tokens
    said = {token: int(labels.pointers[token]) for token in range(20)}
    assert said == dict.fromkeys(range(20), IGNORED) | dict.fromkeys(tokens, NOWHERE) | {3: 1}


@pytest.mark.parametrize(("labelled", "target"), [("word-starts", 1), ("fields", 7)])
def test_one_of_several_links_counts_and_links_to_nothing_do_not(labelled: str, target: int) -> None:
    links = (("c", "d"), ("a", "d"), ("gone", "b"), ("b", "b"))
    labels = labels_of(window(links=links), config("bert", "el", labelled_tokens=labelled))
    assert labels.pointers is not None
    assert [int(labels.pointers[token]) for token in (1, 3, 7, 14)] == [NOWHERE, NOWHERE, NOWHERE, target]


def test_a_link_into_another_window_points_nowhere() -> None:
    page = form()
    second = TOKENS.windows(Form(page.document, page.fields, (("a", "c"),)), 10)[1]
    labels = labels_of(second, config("bert", "el"))
    assert labels.pointers is not None
    assert labels.targets is not None
    assert set(labels.pointers[labels.targets]) == {NOWHERE}


def test_masking_follows_bert_and_its_generator_alone() -> None:
    ids = np.concatenate([[TOKENS.cls], np.tile(TOKENS.ordinary, 500), [TOKENS.unk, TOKENS.sep]])
    torch.manual_seed(1)
    hidden, labels = mask_tokens(ids, TOKENS, torch.Generator().manual_seed(5))
    torch.manual_seed(2)
    again, _ = mask_tokens(ids, TOKENS, torch.Generator().manual_seed(5))
    assert np.array_equal(hidden, again)
    assert labels.classes is not None
    chosen = labels.classes != IGNORED
    ordinary = 500 * len(TOKENS.ordinary)
    assert chosen.sum() == round(0.15 * ordinary)
    assert np.array_equal(labels.classes[chosen], ids[chosen])
    assert np.array_equal(hidden[~chosen], ids[~chosen])
    assert not chosen[[0, -2, -1]].any(), "special tokens are never hidden"
    masked = (hidden[chosen] == TOKENS.mask).mean()
    kept = (hidden[chosen] == ids[chosen]).mean()
    assert masked == pytest.approx(0.8, abs=0.03)
    assert kept == pytest.approx(0.1 + 0.1 / len(TOKENS.ordinary), abs=0.03)
    assert set(hidden[chosen]) <= {TOKENS.mask, *TOKENS.ordinary.tolist()}


def test_at_least_one_token_is_hidden_and_none_where_there_is_none() -> None:
    for seed in range(5):
        _, labels = mask_tokens(window().ids[:4], TOKENS, torch.Generator().manual_seed(seed))
        assert labels.classes is not None
        assert (labels.classes != IGNORED).sum() == 1
    special = np.array([TOKENS.cls, TOKENS.unk, TOKENS.sep])
    hidden, labels = mask_tokens(special, TOKENS, torch.Generator())
    assert labels.classes is not None
    assert np.array_equal(hidden, special)
    assert (labels.classes == IGNORED).all()


def test_settings_that_make_no_network_are_named() -> None:
    for changes, line in (
        ({"labels": ()}, "needs the labels"),
        ({"labels": ("a", "a")}, "twice"),
        ({"labels": ("a", "")}, "names"),
        ({"hidden": 15}, "multiple"),
        ({"max_tokens": 49}, "max_tokens"),
        ({"max_tokens": 2}, "max_tokens"),
        ({"layers": 0}, "layers"),
        ({"vocabulary": True}, "vocabulary"),
        ({"tags": ("O", "B-date", "I-date")}, "belong together"),
    ):
        with pytest.raises(ValueError, match=line):
            config("bert", "ee-bio", **changes)
    with pytest.raises(ValueError, match="multiple of 64"):
        config("bros", "mlm", hidden=32)
    with pytest.raises(ValueError, match="backbone"):
        config("t5", "mlm")
    with pytest.raises(ValueError, match="visual is set"):
        dataclasses.replace(config("bert", "mlm", "bimodal"), modality="unimodal")
