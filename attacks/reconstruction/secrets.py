"""Which fields hold a secret: a value that occurs in one private form, in no public one, and once on its page.

A value that also occurs elsewhere on the page is read there, and one in other forms may have been learnt from these.
A value without a letter or digit, such as a row of dashes, is none: occurrences of it are not counted.
Counted are occurrences in the text of whole pages, not among labelled fields: k-eidetic memorization with k = 1
(Carlini et al. 2021). Private and new forms count alike, so that new forms are a control for secrets too.
"""

from __future__ import annotations

from collections.abc import Sequence

from pfl_audit.attacks.guesses.field import Occurrences, count_in
from pfl_audit.documents.forms.form import Field, Form
from pfl_audit.documents.scrubbing.normalization import normalize_text
from pfl_audit.documents.scrubbing.page_words import PageWords
from pfl_audit.documents.scrubbing.scrub import find_value


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
        """Other occurrences of the value of a field.

        Args:
            form: One of the attacked forms.
        """
        words, value = form.document.words, normalize_text(form.text(field))
        beside = (words[: field.start], words[field.stop :])
        return Occurrences(
            sum(len(find_value(some, form.text(field))) for some in beside),
            sum(count_in(page, value) for name, page in self._attacked.items() if name != form.id),
            sum(count_in(page, value) for page in self._public),
            empty=not value,
        )
