"""A corpus reader: a folder with ``questions.tsv``, one question a line."""

from __future__ import annotations

import csv
from pathlib import Path

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query, as_boxes
from pfl_audit.documents.readers import Part

_FILE = "questions.tsv"


class TabSeparatedReader:
    """Columns: provider, member (yes or no), page, words, question, answer."""

    name = "tab-separated"
    precedence = 10

    def recognises(self, path: Path) -> bool:
        """Whether the folder holds the file."""
        return (path / _FILE).is_file()

    def read(self, path: Path, part: Part) -> Corpus:
        """Read all of it; every page is RED."""
        queries, membership = [], {}
        with (path / _FILE).open(newline="") as file:
            for number, row in enumerate(csv.DictReader(file, delimiter="\t")):
                words = tuple(row["words"].split())
                boxes = as_boxes(
                    [(i / len(words), 0.1, (i + 1) / len(words), 0.2) for i in range(len(words))], len(words)
                )
                page = Document(row["page"], row["provider"], words, boxes)
                queries.append(Query(f"q{number}", page, row["question"], (row["answer"],), "other"))
                membership[row["provider"]] = Membership.MEMBER if row["member"] == "yes" else Membership.NON_MEMBER
        return Corpus(tuple(queries), membership, self.name)


READER = TabSeparatedReader()
