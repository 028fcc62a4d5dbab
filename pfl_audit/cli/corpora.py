"""What commands that write corpora print."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pfl_audit.cli.console import note, print_json

if TYPE_CHECKING:
    from pfl_audit.documents.corpus import Corpus, Problem


def masked(problems: Sequence[Problem], *, reveal: bool = False) -> tuple[Problem, ...]:
    """Problems with pseudonyms instead of page names."""
    from pfl_audit.core.redaction import Redactor

    hide = Redactor(secrets.token_hex(), reveal=reveal)
    return tuple(replace(one, record=hide.page(one.record)) if one.is_page else one for one in problems)


def list_left_out(problems: Sequence[Problem], *, reveal: bool | None) -> None:
    """Print the records that are left out, and how their names are seen; None for a command without ``--reveal``."""
    for problem in masked(problems, reveal=bool(reveal)):
        note(f"left out: {problem.record}: {problem.reason}")
    if reveal is False and any(problem.is_page for problem in problems):
        note("names are masked; --reveal shows them")


def unlabelled_line(corpus: Corpus) -> str | None:
    """One line on the units without a membership; None if every unit has one."""
    if not (unknown := corpus.unlabelled()):
        return None
    return (
        f"the membership of {len(unknown)} of {len(corpus.units)} {corpus.unit}s is unknown, and an audit of "
        "membership leaves them out: it is the column 'member' of a table of labels, and 'membership' of corpus.jsonl"
    )


def report_corpora(
    written: Mapping[Path, Corpus],
    *,
    as_json: bool,
    quiet: bool,
    reveal: bool | None = None,
    clients: Sequence[dict[str, Any]] = (),
    unused: int = 0,
) -> None:
    """Print the corpora that were written, the main corpus first, its clients, and the records left out.

    Args:
        unused: Number of pages of non-members that were left out, so that both classes are asked about alike.
    """
    if not quiet:
        list_left_out([problem for corpus in written.values() for problem in corpus.problems], reveal=reveal)
    counts: list[dict[str, Any]] = [
        {
            "out": str(out),
            "providers": len(corpus.providers),
            "pages": len(corpus.documents),
            "questions": len(corpus.queries),
            "left_out": len(corpus.problems),
        }
        for out, corpus in written.items()
    ]
    if as_json:
        more: dict[str, Any] = {"unused": unused} if unused else {}
        more |= ({"out_model": counts[1]} if counts[1:] else {}) | ({"clients": list(clients)} if clients else {})
        print_json(counts[0] | more)
    elif not quiet:
        for row in clients:
            held = "client {client}: {documents} documents of {providers} providers with {questions} questions from "
            note(held.format(**row) + ", ".join(row["sources"]))
        for row in counts:
            note("{pages} pages of {providers} providers with {questions} questions written to {out}".format(**row))
        if unused:
            note(f"{unused} more pages of non-members are not used, so that both classes are asked about alike")
        if left_out := sum(row["left_out"] for row in counts):
            note(f"{left_out} records left out")
        if line := unlabelled_line(next(iter(written.values()))):
            note(line)
