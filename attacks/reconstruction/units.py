"""Independent units of forms: providers, and near-duplicates where no provider is known.

Forms of one provider, and forms that differ in a few words, are put back together or not at all. Resampled or permuted
one by one they would count as many times as they occur.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pfl_audit.documents.forms.form import Form
from pfl_audit.documents.forms.partition import THRESHOLD, group_forms
from pfl_audit.provider_identity import provider_identity


@dataclass(frozen=True)
class Units:
    """Units of private and of new forms.

    Attributes:
        of: Form id to its unit.
        name: What a unit is, in the plural.
        apart: Whether providers are known and none has forms on both sides. Then a difference between providers cannot
            be distinguished from memory of a few of them.
    """

    of: Mapping[str, str]
    name: str
    apart: bool

    def count(self, forms: Sequence[Form]) -> int:
        """Number of units that the forms belong to."""
        return len({self.of[form.id] for form in forms})


def units_of(private: Sequence[Form], new: Sequence[Form], threshold: float = THRESHOLD) -> Units:
    """The provider of each form, else its group of near-duplicates and pages of one document.

    Args:
        threshold: Smallest Jaccard index of near-duplicates.
    """
    forms = [*private, *new]
    of = {form.id: f"provider {provider}" for form in forms if (provider := _provider(form))}
    groups, _ = group_forms([form for form in forms if form.id not in of], threshold)
    name = " or ".join([*(["providers"] if of else []), *(["documents"] if groups else [])])
    sides = [{_provider(form) for form in some} - {""} for some in (private, new)]
    of |= {form.id: f"document {group[0].document.file}" for group in groups for form in group}
    return Units(of, name, bool(sides[0] and sides[1]) and sides[0].isdisjoint(sides[1]))


def _provider(form: Form) -> str:
    return provider_identity(form.document.provider)
