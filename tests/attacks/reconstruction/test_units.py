import random

import numpy as np

from pfl_audit.attacks.reconstruction.units import Units, units_of
from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import Form


def form(name: str, provider: str = "", words: tuple[str, ...] | None = None) -> Form:
    rng = random.Random(name)
    words = words or tuple(str(rng.random()) for _ in range(30))
    return Form(Document(name, provider, words, np.zeros((len(words), 4), np.float32)))


def count(units: Units, forms: list[Form]) -> int:
    return len({units.of[form.id] for form in forms})


def test_forms_of_one_provider_are_one_unit() -> None:
    private, new = [form("a_1", "Acme"), form("b_1", "ACME "), form("c_1", "Bolt")], [form("d_1", "Bolt")]
    units = units_of(private, new)
    assert units.of["a_1"] == units.of["b_1"] != units.of["c_1"] == units.of["d_1"]
    assert (units.name, units.apart, count(units, private)) == ("providers", False, 2)


def test_without_providers_near_duplicates_and_pages_of_a_document_are_one() -> None:
    rows = tuple(f"word{number}" for number in range(30))
    copy = (*rows[:-1], "other")
    private = [form("a_1", words=rows), form("b_1", words=copy), form("c_1"), form("c_2"), form("d_1")]
    units = units_of(private, [form("e_1")])
    assert units.of["a_1"] == units.of["b_1"]
    assert units.of["c_1"] == units.of["c_2"]
    assert (units.name, units.apart, count(units, private)) == ("documents", False, 3)


def test_where_some_providers_are_known_both_are_units() -> None:
    units = units_of([form("a_1", "Acme"), form("b_1")], [])
    assert (units.name, len(set(units.of.values()))) == ("providers or documents", 2)


def test_no_provider_on_both_sides_is_noticed() -> None:
    private = [form("a_1", "Acme")]
    assert units_of(private, [form("b_1", "Bolt")]).apart
    assert not units_of(private, [form("b_1", "acme")]).apart
    assert not units_of(private, [form("b_1")]).apart
    assert not units_of(private, []).apart
