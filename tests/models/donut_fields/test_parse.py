"""Fields of tagged sequences against ``token2json`` of transformers, and sequences that break every rule."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from pfl_audit.documents.readers.gathered import leaves
from pfl_audit.models.donut_fields.parse import MOST_DEPTH, parse
from pfl_audit.models.donut_fields.tags import field_tags
from tests.models.donut_fields.conftest import TASK, tag_names

KEYS = ("menu", "nm", "cnt", "total")
NAMES = [TASK, "<sep/>", *tag_names(KEYS)]
WORDS = ["tea", "cake", "12", "x"]
TAGS = field_tags({name: number for number, name in enumerate(NAMES)}, [])
CLOSING = {NAMES.index(f"</s_{key}>") for key in KEYS}


def ids_of(text: str) -> list[int]:
    every = [*NAMES, *WORDS]
    return [every.index(one) for one in re.findall(r"<[^>]*>|\w+", text)]


def fields(ids: list[int]) -> list[tuple[str, str]]:
    assert TAGS is not None
    found = parse(ids, TAGS)
    texts = [
        " ".join(WORDS[one - len(NAMES)] for one in ids[span.start : span.stop] if one >= len(NAMES)) for span in found
    ]
    return [(".".join(span.path), text) for span, text in zip(found, texts, strict=True) if not span.group]


def own(ids: list[int]) -> list[tuple[str, str]]:
    """As transformers reads it; tags in a value are removed, since here they are no text."""
    from transformers import DonutProcessor

    class Nothing:
        def get_added_vocab(self) -> dict[str, int]:
            return {}

    made: Any = object.__new__(DonutProcessor)
    made.tokenizer = Nothing()
    tree = made.token2json(" ".join([*NAMES, *WORDS][one] for one in ids))
    clean = [(key, " ".join(re.sub(r"<[^>]*>", " ", value).split())) for key, value in leaves(tree)]
    return [one for one in clean if one[0] != "text_sequence"]


@pytest.mark.parametrize(
    "text",
    [
        "<s_total>12</s_total>",
        "<s_menu><s_nm>tea</s_nm><s_cnt>x</s_cnt><sep/><s_nm>cake</s_nm></s_menu><s_total>12</s_total>",
        "<s_menu>tea<sep/>cake<sep/>x</s_menu>",
        "<s_nm>tea</s_nm><s_nm>cake</s_nm>",
        "<s_menu><s_nm>tea</s_menu>",
        "tea<s_nm>cake</s_nm>x</s_nm>",
        "</s_nm><s_nm>tea",
        "",
    ],
)
def test_sequences_are_read_as_by_transformers(text: str) -> None:
    ids = ids_of(text)
    assert fields(ids) == own(ids)


def test_random_sequences_are_read_as_by_transformers() -> None:
    rng = np.random.default_rng(3)
    read = 0
    for _ in range(3000):
        ids = rng.integers(1, len(NAMES) + len(WORDS), rng.integers(2, 14)).tolist()
        if any(ids.index(one) < (ids.index(one - 1) if one - 1 in ids else 99) for one in set(ids) & CLOSING):
            continue  # a closing tag without its opening one, which token2json takes for the end of the next
        read += len(fields(ids))
        assert fields(ids) == own(ids)
    assert read > 200


def test_tags_that_are_nested_a_thousand_deep_and_never_closed_cost_nothing() -> None:
    opening, closing = NAMES.index("<s_menu>"), NAMES.index("</s_menu>")
    inner = ids_of("<s_nm>tea</s_nm>")
    keys = [f"k{number}" for number in range(1000)]
    names = [TASK, *tag_names(keys)]
    tags = field_tags({name: number for number, name in enumerate(names)}, [])
    assert tags is not None
    deep = [tags.opens[key] for key in keys] + [tags.closes[key] for key in reversed(keys)]
    assert all(len(span.path) <= MOST_DEPTH for span in parse(deep, tags))
    assert fields([opening] * 1000 + inner) == [("nm", "tea")]
    assert fields([opening] * 1000 + inner + [closing] * 1000) == [("menu.nm", "tea")]
    assert fields([opening] * 8000) == []
