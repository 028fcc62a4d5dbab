import numpy as np

from pfl_audit.fitness.spellings import Spelling, normal_name, spellings


def test_case_accents_punctuation_and_legal_forms_do_not_count() -> None:
    assert len({normal_name(name) for name in ("Müller & Söhne GmbH", "muller sohne", "MÜLLER-SÖHNE, GmbH")}) == 1
    assert normal_name("Co. Ltd.") == "coltd"
    assert normal_name("!!") == "!!"


def test_spellings_of_one_provider() -> None:
    names = ("ACME Media, Inc.", "Acme Media", "Acme Medya", "Northern Lights", "Northen Lights", "WABC-TV", "WABD-TV")
    assert spellings(names) == [
        Spelling(("ACME Media, Inc.", "Acme Media"), same=True),
        Spelling(("Northen Lights", "Northern Lights"), same=False),
    ]


def test_names_with_other_digits_are_others() -> None:
    assert spellings(f"Distribution Centre {number}" for number in range(200)) == []


def test_thousands_of_names_with_one_beginning() -> None:
    rng = np.random.default_rng(0)
    names = [f"International {''.join(chr(97 + n) for n in rng.integers(0, 26, 12))}" for _ in range(3000)]
    assert spellings(names) == []
