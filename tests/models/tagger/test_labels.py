"""Labels: keys, spans, and id2label from hostile folders."""

from __future__ import annotations

from typing import Any

import pytest

from pfl_audit.models.tagger.labels import MOST_LABELS, Labels, read_labels


def test_keys_are_names_without_prefix_in_lower_case() -> None:
    labels = Labels(("O", "B-MENU.NM", "I-MENU.NM", "S-Total Price", "header", "E-mail", "O-ring"))
    assert set(labels.keys) == {"menu.nm", "total_price", "header", "mail", "o_ring"}


@pytest.mark.parametrize(
    ("sequence", "spans"),
    [
        ("O B-A I-A O", [("a", 1, 3)]),
        ("B-A B-A I-B", [("a", 0, 1), ("a", 1, 2), ("b", 2, 3)]),
        ("I-A I-A O I-A", [("a", 0, 2), ("a", 3, 4)]),
        ("B-A E-A I-A S-A S-A", [("a", 0, 2), ("a", 2, 3), ("a", 3, 4), ("a", 4, 5)]),
        ("x x O x", [("x", 0, 2), ("x", 3, 4)]),
        ("O O", []),
    ],
)
def test_spans(sequence: str, spans: list[tuple[str, int, int]]) -> None:
    names = tuple(sorted(set(sequence.split())))
    assert Labels(names).spans([names.index(one) for one in sequence.split()]) == spans


@pytest.mark.parametrize(
    ("names", "words", "true"),
    [
        ("O B-A I-A", 3, "B-A I-A I-A"),
        ("O B-A I-A E-A S-A", 3, "B-A I-A E-A"),
        ("O B-A I-A E-A S-A", 1, "S-A"),
        ("O B-A I-A L-A U-A", 2, "B-A L-A"),
        ("O A", 2, "A A"),
        ("O I-A", 2, "I-A I-A"),
    ],
)
def test_true_labels_are_those_of_the_scheme(names: str, words: int, true: str) -> None:
    labels = Labels(tuple(names.split()))
    found = labels.true("a", words)
    assert " ".join(labels.names[number] for number in found) == true
    assert labels.spans(found) == [("a", 0, words)]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (None, "no id2label"),
        ({}, "no id2label"),
        ({"0": "O", "2": "B-A"}, "not the numbers"),
        ({"0": "O", "x": "B-A"}, "not the numbers"),
        ({"0": "O", "9" * 5000: "B-A"}, "not the numbers"),
        ({"0": "O", "1": "B-\x1b[31mA"}, "label 1 of id2label is no short"),
        ({"0": "O", "1": "B-" + "A" * 1000}, "label 1 of id2label is no short"),
        ({"0": "O", "1": 3}, "label 1 of id2label is no short"),
        ({"0": "O"}, "no label of a field"),
        ({str(number): f"B-{number}" for number in range(MOST_LABELS + 1)}, f"more than {MOST_LABELS:,}"),
    ],
)
def test_labels_from_outside_are_checked(said: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_labels({"id2label": said})


def test_markup_in_a_label_is_a_key_like_any_other() -> None:
    assert set(read_labels({"id2label": {"0": "O", "1": "B-<script>[red]"}}).keys) == {"<script>[red]"}
