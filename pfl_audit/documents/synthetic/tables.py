"""Pages with a table, as sources of federated training that are unlike invoices.

``tables`` asks for cells, as WikiTableQuestions does; ``statements`` asks whether the table supports or refutes a
statement, as TabFact does (federated-docvqa-pilot, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pfl_audit.documents.synthetic.canvas import WIDTH, Canvas
from pfl_audit.documents.synthetic.providers import Provider, surname, words

_MARGIN = 40
_SUBJECTS = {
    "Station": words("Listeners Revenue Staff Founded"),
    "Branch": words("Orders Returns Staff Opened"),
    "Team": words("Played Won Points Founded"),
    "Plant": words("Output Shifts Outages Built"),
}
"""What a row is, and the columns of numbers."""
_YEARS = ("Founded", "Opened", "Built")
_CELL_QUESTIONS = (
    "What is the value of {column} for {row}?",
    "Which number does the table give under {column} for {row}?",
    "How much is {column} for {row}?",
)
_EXTREME_QUESTIONS = (
    "Which {subject} has the largest number under {column}?",
    "Which {subject} has the smallest number under {column}?",
)
_STATEMENTS = (
    "{row} has {value} under {column}.",
    "the number under {column} is {value} for {row}.",
    "{row} has a larger number under {column} than {other}.",
)


@dataclass(frozen=True)
class Table:
    """Content of a page.

    Attributes:
        subject: What a row is.
        rows: Names of the rows.
        columns: Names of the columns of numbers.
        cells: Numbers, int (rows, columns), no number twice in a column.
    """

    subject: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    cells: tuple[tuple[int, ...], ...]


def draw_table(rng: np.random.Generator) -> Table:
    """Draw a table of four to eight rows and two to four columns."""
    subject = list(_SUBJECTS)[int(rng.integers(len(_SUBJECTS)))]
    columns = tuple(_SUBJECTS[subject][: int(rng.integers(2, 5))])
    size = int(rng.integers(4, 9))
    names: dict[str, None] = {}
    while len(names) < size:
        names[surname(rng)] = None
    drawn = [
        rng.choice(np.arange(1900, 2020) if column in _YEARS else np.arange(10, 10_000), size=size, replace=False)
        for column in columns
    ]
    return Table(subject, tuple(names), columns, tuple(tuple(int(one[row]) for one in drawn) for row in range(size)))


def render_table(provider: Provider, table: Table) -> Canvas:
    """Draw the page in the style of its provider."""
    canvas, style = Canvas(), provider.style
    top = canvas.text((_MARGIN, 48), provider.name, family=style.font, size=18, bold=True, colour=style.primary)
    top = canvas.text((_MARGIN, top + 4), f"{table.subject} overview", family=style.font, size=13) + 16
    ends = [WIDTH - _MARGIN - 95.0 * place for place in range(len(table.columns))][::-1]
    canvas.draw.rectangle((_MARGIN - 4, top - 3, WIDTH - _MARGIN + 4, top + 15), fill=style.primary)
    white = (255, 255, 255)
    canvas.text((_MARGIN, top), table.subject, family=style.font, bold=True, colour=white)
    for end, column in zip(ends, table.columns, strict=True):
        canvas.text((end, top), column, family=style.font, bold=True, colour=white, align="right")
    top += 22
    for name, cells in zip(table.rows, table.cells, strict=True):
        low = canvas.text((_MARGIN, top), name, family=style.font)
        for end, cell in zip(ends, cells, strict=True):
            canvas.text((end, top), str(cell), family=style.font, align="right")
        top = low + 3
        if style.ruled:
            canvas.draw.line((_MARGIN, top - 3, WIDTH - _MARGIN, top - 3), fill=style.accent)
    return canvas


def ask_cells(table: Table, count: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Questions for cells and for the row with the largest or smallest number, with their answers, lower case."""
    found = []
    for _ in range(count):
        row, at = int(rng.integers(len(table.rows))), int(rng.integers(len(table.columns)))
        column = table.columns[at].lower()
        if rng.random() < 0.75:
            question = str(rng.choice(_CELL_QUESTIONS)).format(column=column, row=table.rows[row])
            answer = str(table.cells[row][at])
        else:
            low = int(rng.integers(2))
            numbers = [cells[at] for cells in table.cells]
            question = _EXTREME_QUESTIONS[low].format(subject=table.subject.lower(), column=column)
            answer = table.rows[numbers.index(min(numbers) if low else max(numbers))].lower()
        found.append((question, answer))
    return found


def ask_statements(table: Table, count: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Statements, of which half are supported in expectation, with ``yes`` or ``no``."""
    found = []
    for _ in range(count):
        first, second = (int(one) for one in rng.choice(len(table.rows), size=2, replace=False))
        at, true = int(rng.integers(len(table.columns))), bool(rng.random() < 0.5)
        frame = str(rng.choice(_STATEMENTS))
        if "{other}" in frame and (table.cells[first][at] > table.cells[second][at]) != true:
            first, second = second, first
        value = table.cells[first if true else second][at]
        row, other = table.rows[first], table.rows[second]
        statement = frame.format(row=row, column=table.columns[at].lower(), value=value, other=other)
        found.append((f"Does the table support this statement: {statement}", "yes" if true else "no"))
    return found
