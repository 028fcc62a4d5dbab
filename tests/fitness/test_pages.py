"""Near-duplicate pages, and answers that are not on their page."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.images import PageImage
from pfl_audit.fitness.check import page_values
from pfl_audit.fitness.page_duplicates import duplicates
from pfl_audit.fitness.page_look import PageLooks, look_of, page_look
from pfl_audit.progress import Silent

Pages = Callable[..., Document]


def scan(seed: int, turn: float = 0.0, noise: float = 0.0) -> Image.Image:
    """A page of dark bars, scanned again with a small turn and noise."""
    rng = np.random.default_rng(seed)
    image = Image.new("L", (340, 440), 250)
    draw = ImageDraw.Draw(image)
    for left, top, width, height in rng.integers((20, 20, 30, 8), (200, 400, 120, 40), (12, 4)):
        draw.rectangle((left, top, left + width, top + height), fill=40)
    pixels = np.asarray(image.rotate(turn, fillcolor=250), dtype=float)
    pixels = pixels + noise * np.random.default_rng(seed + 1000).normal(size=pixels.shape)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).convert("RGB")


def pages_of(images: list[Image.Image], words: list[tuple[str, ...]], folder: Path, page: Pages) -> list[Document]:
    found = []
    for number, (image, text) in enumerate(zip(images, words, strict=True)):
        path = folder / f"scan{number}.png"
        image.save(path)
        found.append(replace(page(*text, name=f"p{number}_1"), image=PageImage(path)))
    return found


def looks_at(pages: list[Document]) -> PageLooks:
    looks = PageLooks()
    assert not any(looks.unusable(one) for one in pages)
    return looks


def partners(pages: list[Document], looks: PageLooks) -> list[int]:
    """A near-duplicate of each page among those of the other group; pages take turns."""
    groups = np.arange(len(pages)) % 2
    found = duplicates(pages, groups, looks, Silent())
    assert (found[np.arange(len(pages)), groups] == -1).all()
    return [int(found[number, 1 - groups[number]]) for number in range(len(pages))]


def test_pages_without_text_are_compared_by_their_images(tmp_path: Path, page: Pages) -> None:
    blank = Image.new("RGB", (340, 440), "white")
    images = [scan(1), scan(1, turn=0.4, noise=8), scan(2), scan(3), blank, blank]
    pages = pages_of(images, [()] * 6, tmp_path, page)
    assert partners(pages, looks_at(pages)) == [1, 0, -1, -1, -1, -1]
    assert partners(pages, PageLooks()) == [-1] * 6


def test_misread_pages_need_both_text_and_image(tmp_path: Path, page: Pages) -> None:
    words = tuple(f"w{number}" for number in range(60))
    misread = tuple(f"x{number}" if number % 8 == 0 else word for number, word in enumerate(words))
    pages = pages_of([scan(1), scan(1, noise=8)], [words, misread], tmp_path, page)
    assert partners(pages, looks_at(pages)) == [1, 0]
    other = pages_of([scan(1), scan(2)], [words, misread], tmp_path, page)
    assert partners(other, looks_at(other)) == [-1, -1]
    layout = pages_of([scan(1), scan(1)], [words, tuple(f"y{number}" for number in range(60))], tmp_path, page)
    assert partners(layout, looks_at(layout)) == [-1, -1]


def test_the_hash_of_a_page_survives_a_second_scan() -> None:
    one, again, other = (look_of(image).bits for image in (scan(1), scan(1, turn=0.4, noise=8), scan(2)))
    assert one.shape == (64,)
    assert (one != again).sum() <= 6 < (one != other).sum()


def test_an_image_that_cannot_be_opened(tmp_path: Path, page: Pages) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    broken = replace(page("x"), image=PageImage(tmp_path / "broken.png"))
    looks = PageLooks()
    assert "no image" in str(looks.unusable(broken))
    assert (looks.of(broken), page_look(broken), page_look(replace(broken, image=None))) == (None, None, None)
    assert looks.unusable(replace(broken, image=None)) is None


def test_answers_on_their_page(page: Pages) -> None:
    text = page("Invoice", "No.", "A-17", "Total:", "$1,234.50", "Northern", "Lights")
    empty = page(name="b_1")
    answers = {"a": ("A17",), "b": ("1234.50",), "c": ("Northera Lights",), "d": ("A18",), "e": ("yes", "INVOICE")}
    queries = [Query(key, text, "?", several, key) for key, several in answers.items()]
    found = page_values([*queries, Query("z", empty, "?", ("A17",), "a")], Silent())
    assert found.without_text == ("b_1",)
    assert dict(found.asked) == dict.fromkeys("abcde", 1)
    assert dict(found.missing) == {"d": 1}
    short = Query("f", page("Lights", name="c_1"), "?", ("Northern Lights",), "f")
    assert dict(page_values([short], Silent()).missing) == {"f": 1}  # the page has a part of the answer alone
