"""Normal forms of text for comparison.

``normalize_text`` removes case, accents, punctuation, invisible characters, letters of other scripts that look Latin
(Unicode Technical Standard 39, confusables.txt) and digits of other scripts. ``merge_ocr_confusions`` also maps
characters that OCR confuses to one.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

_LOOKALIKES = """
a:аα b:вβ c:сϲ d:ԁđ e:еє h:нһη i:іıι j:јϳ k:кκ l:ӏł m:мμ n:ν o:оοøօ p:рρ q:ԛ s:ѕ t:тτ u:ս v:ѵ w:ԝѡ x:хχ y:уυү
z:ζ ae:æ oe:œ
"""
"""Latin letters and the letters of other alphabets that look like them, as capitals if the two cases differ."""

_PAIRS = [pair.split(":") for pair in _LOOKALIKES.split()]
_TO_LATIN = str.maketrans({other: latin for latin, others in _PAIRS for other in others})
_OCR_LETTERS = str.maketrans("012568iq", "olzsgblg")
_OCR_PAIRS = (("rn", "m"), ("vv", "w"), ("cl", "d"))


@lru_cache(maxsize=65536)
def to_latin(text: str) -> str:
    """Text with Latin letters without accents and ASCII digits; case, spaces and punctuation are kept.

    Returns:
        The text without accents, format characters, look-alike letters and digits of other scripts.
    """
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(_letter(letter) for letter in decomposed if unicodedata.category(letter) not in ("Mn", "Cf"))


@lru_cache(maxsize=65536)
def normalize_text(text: str) -> str:
    """Letters and digits only, case-folded, with accents, ligatures and look-alike letters resolved."""
    folded = to_latin(text).casefold()
    return folded if folded.isalnum() else "".join(letter for letter in folded if letter.isalnum())


@lru_cache(maxsize=65536)
def merge_ocr_confusions(normalized: str) -> str:
    """One spelling of all characters that OCR confuses: ``0`` and ``O``, ``1``, ``l`` and ``I``, ``rn`` and ``m``, ...

    Args:
        normalized: Result of ``normalize_text``.
    """
    letters = normalized.translate(_OCR_LETTERS)
    for pair, letter in _OCR_PAIRS:
        letters = letters.replace(pair, letter)
    return letters


def _letter(letter: str) -> str:
    if letter.isdecimal():
        return str(unicodedata.digit(letter))
    if letter.isascii():
        return letter
    if unicodedata.category(letter) == "Pd":
        return "-"
    if letter in "\u2018\u2019\u02bc":
        return "'"
    small = letter.lower()
    latin = small.translate(_TO_LATIN)
    return latin.upper() if letter != small else latin
