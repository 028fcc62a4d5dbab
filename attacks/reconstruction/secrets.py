"""Which fields hold a secret: a value that stands in one private form, in no public form, and nowhere else on its page.

What stands elsewhere on the page is read there, and what stands in other forms may have been learnt from these. Counted
are occurrences in the text of whole pages, not among labelled fields: k-eidetic memorization with k = 1 (Carlini et al.
2021). Private and new forms count alike, so that new forms are a control for secrets too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.documents.scrubbing.normalization import normalize_text
from pfl_audit.documents.scrubbing.page_words import PageWords
from pfl_audit.documents.scrubbing.scrub import find_value


@dataclass(frozen=True)
class Occurrences:
    """Where the value of a field stands, the field itself left out.

    Attributes:
        on_page: Words of its own page that hold or identify the value, exactly or approximately.
        elsewhere: Occurrences in the text of other private and new forms.
        public: Occurrences in the text of public forms.
    """

    on_page: int
    elsewhere: int
    public: int

    @property
    def secret(self) -> bool:
        """Whether it stands in its field and nowhere else."""
        return self == _NOWHERE


_NOWHERE = Occurrences(0, 0, 0)


class Texts:
    """The text of forms, in which values are counted.

    Args:
        attacked: Private and new forms.
        public: Public forms.
    """

    def __init__(self, attacked: Sequence[Form], public: Sequence[Form]) -> None:
        self._attacked = {form.id: PageWords(form.document.words) for form in attacked}
        self._public = [PageWords(form.document.words) for form in public]

    def occurrences(self, form: Form, field: Field) -> Occurrences:
        """Where the value of a field stands.

        Args:
            form: One of the attacked forms.
        """
        words, value = form.document.words, normalize_text(form.text(field))
        beside = (words[: field.start], words[field.stop :])
        return Occurrences(
            sum(len(find_value(some, form.text(field))) for some in beside),
            sum(_count(page, value) for name, page in self._attacked.items() if name != form.id),
            sum(_count(page, value) for page in self._public),
        )


def _count(page: PageWords, value: str) -> int:
    """Runs of whole words that are the value, up to case, punctuation, accents and OCR confusions."""
    return len({(run.start, run.stop) for run in page.runs_of((value,))}) if value else 0
