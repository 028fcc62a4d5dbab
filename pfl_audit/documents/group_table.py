"""Groups of the units of a corpus, from a table beside it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.csv_table import csv_rows, named_cells
from pfl_audit.documents.readers import of_part
from pfl_audit.documents.record_validation import MAX_NAME, RecordError, text
from pfl_audit.documents.units import PROVIDER, UNITS
from pfl_audit.errors import AuditError
from pfl_audit.provider_identity import provider_identity

COLUMNS = ("unit", "group")


def with_groups(corpus: Corpus, path: Path) -> Corpus:
    """The corpus with the groups of a CSV table that has the columns ``unit`` and ``group``, beside its own.

    A unit may have several rows. Case and spaces of a provider's name do not count.

    Args:
        corpus: Corpus grouped by the unit of privacy.
        path: The table.

    Raises:
        UsageError: There is no such file.
        AuditError: It cannot be read, a column is missing, a cell is empty, or a row names no unit that the audit asks
            about.
    """
    key = provider_identity if corpus.unit == PROVIDER.name else str
    units = {key(unit): unit for unit in of_part(corpus, "red").units}
    stated: defaultdict[str, set[str]] = defaultdict(set)
    unknown, count = list[int](), 0
    for number, cells in named_cells(path, csv_rows(path, "Save it as CSV in UTF-8"), COLUMNS, ", ".join(COLUMNS)):
        try:
            unit, group = (text(cells.get(name, "").strip(), name, MAX_NAME) for name in COLUMNS)
        except RecordError as error:
            raise AuditError(f"{path} row {number}: {error}", "Correct the row; leave out what has no group") from error
        count += 1
        if (name := units.get(key(unit))) is not None:
            stated[name].add(group)
        else:
            unknown.append(number)
    if unknown:
        raise AuditError(
            f"{path}: {len(unknown)} of {count} rows name no {UNITS[corpus.unit].name} that is asked about, "
            f"the first is row {unknown[0]}",
            "Write the names as in the corpus, and leave out others",
        )
    if not stated:
        raise AuditError(f"{path} holds no row", "Give a row for each unit with a group")
    return replace(corpus, group_table={unit: frozenset(names) for unit, names in stated.items()})


def groups_line(corpus: Corpus) -> str | None:
    """One line on the groups of a corpus, and on units without one; None where there are no groups."""
    unit, count = UNITS[corpus.unit], len(set(corpus.groups.values()))
    if corpus.client_groups:
        first = f"classes and clients coincide, so that clients are the groups: {count}"
    elif corpus.stated_groups:
        first = f"groups: {count}"
    else:
        return None
    alone = len(corpus.units) - len(corpus.stated_groups or corpus.client_groups)
    more = f"; {alone} without a group, each its own" if alone else ""
    return f"{first}, of {len(corpus.units)} {unit.many}{more}"
