"""fcc-adbuy as forms: fields are the values of the five hand-entered labels on the page."""

from __future__ import annotations

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pfl_audit.documents.forms.form import Field, Form, FormCorpus
from pfl_audit.documents.forms.readers.records import as_form, gather
from pfl_audit.documents.readers.fcc_adbuy import FILE_NAME, page_of, read_records
from pfl_audit.documents.readers.jsonl import mapping_of
from pfl_audit.documents.record_validation import RecordError
from pfl_audit.inputs import is_there


class FccAdbuyReader:
    """Reader of ``docs.jsonl``."""

    name = "fcc-adbuy"
    precedence = 40

    def recognises(self, path: Path) -> bool:
        """Whether the folder contains ``docs.jsonl``."""
        return is_there(path / FILE_NAME)

    def read(self, path: Path) -> FormCorpus:
        """Read the forms; every span of a label's value becomes a field.

        Pages of unknown stations are included.
        """
        rows, problems = read_records(path)
        forms = gather(((row["id"], partial(_form, row, path)) for row in rows), problems, pages=True)
        return FormCorpus(forms, self.name, None, tuple(problems))


READER = FccAdbuyReader()


def _form(row: Mapping[str, Any], folder: Path) -> Form:
    return as_form(page_of(row, folder), fields_of(mapping_of(row, "spans")))


def fields_of(spans: Mapping[str, Any]) -> list[Field]:
    """Fields of a record, without overlap.

    Of overlapping spans the longest, then the first, is kept. If two labels have the same span (a flight of one day),
    it is assigned to the label with fewer fields so far.

    Args:
        spans: Label to a list of [start, stop) spans.

    Raises:
        RecordError: ``spans`` has another form.
    """
    labels: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    for label, places in sorted(spans.items()):
        if not isinstance(places, list):
            raise RecordError("the spans of a label are not a list")
        for place in places:
            if not isinstance(place, list) or len(place) != 2 or not all(type(end) is int for end in place):
                raise RecordError("a span is not a pair of word numbers")
            if not 0 <= place[0] < place[1]:
                raise RecordError("a span holds no word")
            labels[place[0], place[1]].append(label)
    taken: list[tuple[int, int]] = []
    fields: list[Field] = []
    counts: Counter[str] = Counter()
    for start, stop in sorted(labels, key=lambda place: (place[0] - place[1], place)):
        at = bisect(taken, (start, stop))
        if (at and start < taken[at - 1][1]) or (at < len(taken) and taken[at][0] < stop):
            continue
        taken.insert(at, (start, stop))
        label = min(labels[start, stop], key=lambda name: (counts[name], name))
        counts[label] += 1
        fields.append(Field(f"{label}-{counts[label]}", label, start, stop))
    return fields
