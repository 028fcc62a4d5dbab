from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.fitness.document_features import MAX_IMAGES, dates_in, document_features
from pfl_audit.progress import Silent


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("due 2022-09-07.", [(2022, 9)]),
        ("Date: 09/22/2022 to 10/07/22", [(2022, 9), (2022, 10)]),
        ("22/09/2022", [(2022, 9)]),
        ("7.9.2022 and 22.09.98", [(2022, 9), (1998, 9)]),
        ("Sep 7, 2022", [(2022, 9)]),
        ("September 2022", [(2022, 9)]),
        ("7th September, 2022", [(2022, 9)]),
        ("7-Sep-2022", [(2022, 9)]),
        ("7-Sep-22 or 07 Oct 98", [(2022, 9), (1998, 10)]),
        ("3. März 2021", [(2021, 3)]),
        ("Net 15 Item 22 5-abc-22 13/13/2022 0/0/2022 192.168.1.22 (952) 944-9999 1/2/3/4/2022 Box 2022", []),
        ("9" * 2000, []),
    ],
)
def test_dates(text: str, dates: list[tuple[int, int]]) -> None:
    assert dates_in(text) == dates


def corpus_of(pages: list[Document], keys: tuple[str, ...] = ("total_amount",)) -> Corpus:
    queries = [Query(f"{page.id}/{key}", page, "what?", ("12.50",), key) for page in pages for key in keys]
    return Corpus(tuple(queries), {page.provider: Membership.MEMBER for page in pages})


def test_one_row_a_provider(page: Callable[..., Document]) -> None:
    pages = [
        page("Total", "12.50", "09/07/2022", provider="B", name="one_1"),
        page("total", provider="B", name="one_2"),
        page("Total", "2021-01-03", provider="A", name="two_1"),
    ]
    found = document_features(corpus_of(pages, ("total_amount", "due_date")), Silent())
    assert found.units == ("A", "B")
    assert all(list(table.index) == ["A", "B"] for table in found.tables.values())
    b = {kind: table.loc["B"] for kind, table in found.tables.items()}
    assert (b["counts"]["documents"], b["counts"]["pages"], b["counts"]["questions"]) == (1, 2, 4)
    assert b["counts"]["length of the answer"] == 5
    assert dict(b["keys"]) == {"due_date": 0.5, "total_amount": 0.5}
    assert b["text"]["words"] == 2
    assert b["text"]["words with digits"] == pytest.approx((2 / 3 + 0) / 2)
    assert b["dates"]["mean time"] == pytest.approx(2022 + 8 / 12)
    assert b["layout"]["box height"] == pytest.approx(0.1)
    assert b["images"]["width"] == 80
    assert found.words.shape == (2, 1)  # "total" alone is on pages of both and has no digit
    assert np.linalg.norm(found.words, axis=1) == pytest.approx([1, 1])


def test_what_a_page_does_not_have_is_missing(page: Callable[..., Document], tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    bare = replace(page(provider="A", name="a_1"), image=None)
    broken = replace(page("x", provider="B", name="b_1"), image=PageImage(tmp_path / "broken.png"))
    found = document_features(corpus_of([bare, broken, page("1/2/2022", provider="C", name="c_1")]), Silent())
    assert found.tables["images"].isna().all(axis=1).tolist() == [True, True, False]
    assert found.tables["layout"].isna().all(axis=1).tolist() == [True, False, False]
    assert found.tables["dates"]["mean time"].isna().tolist() == [True, True, False]
    assert found.words.shape == (3, 0)


def test_scans_that_are_darker(page: Callable[..., Document], tmp_path: Path) -> None:
    pages = []
    for provider, grey in (("dark", 60), ("light", 220)):
        path = tmp_path / f"{provider}.png"
        Image.new("RGB", (1200, 900), (grey, grey, grey)).save(path)
        pages.append(replace(page("x", provider=provider, name=f"{provider}_1"), image=PageImage(path)))
    table = document_features(corpus_of(pages), Silent()).tables["images"]
    assert table["brightness"].tolist() == pytest.approx([60 / 255, 220 / 255])
    assert table["aspect"].tolist() == pytest.approx([4 / 3] * 2)


def test_names_and_labels_are_not_looked_at(page: Callable[..., Document]) -> None:
    pages = [page("Total", provider=name, name=f"{name}_1") for name in "AB"]
    labelled = corpus_of(pages)
    other = replace(labelled, membership={"A": Membership.NON_MEMBER})
    one, two = (document_features(corpus, Silent()).tables for corpus in (labelled, other))
    assert all(one[kind].equals(two[kind]) for kind in one)
    assert all(np.array_equal(*one[kind].to_numpy(), equal_nan=True) for kind in one)


def test_few_images_of_a_provider_are_opened(page: Callable[..., Document], monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [replace(page("x", name="p_1"), id=f"p{number}_1") for number in range(35)]
    opened = []
    real = PageImage.open
    monkeypatch.setattr(PageImage, "open", lambda image: opened.append(1) or real(image))
    document_features(corpus_of(pages), Silent())
    assert 1 < len(opened) <= MAX_IMAGES


def test_words_with_digits_are_no_words(page: Callable[..., Document]) -> None:
    """Numbers of a form name its company; what is left is the words of its kind."""
    pages = [page("Invoice", "A77", "x2022", "Total", provider=name, name=f"{name}_1") for name in "AB"]
    assert document_features(corpus_of(pages), Silent()).words.shape == (2, 2)
