"""What the scrubber leaves and what it takes too much, by class of hostile page: python -m tests.bench.scrub_classes.

A case fails where a single word of it is wrong. What is left and marked by the second look is flagged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.documents.scrub_cases import CASES, Case, outcome
from tests.documents.scrub_cases_unseen import UNSEEN_CASES


def main() -> None:
    """Print the table of docs/scrubbing.md, and every word that is wrong."""
    for title, cases in (("the list", CASES), ("unseen", UNSEEN_CASES)):
        print(f"\n{title}:")
        _table(cases)


def _table(cases: Sequence[Case]) -> None:
    total: Counter[tuple[str, str]] = Counter()
    for case in cases:
        left, unflagged, too_much = outcome(case)
        for what, found in (("cases", {""}), ("left", left), ("unflagged", unflagged), ("too much", too_much)):
            for group in (case.group, "all"):
                total[group, what] += bool(found)
        if left or too_much:
            print(f"{case.group}: {case.value!r}", *map(sorted, (left, unflagged, too_much)))
    groups = (*dict.fromkeys(case.group for case in cases), "all")
    print("| class | cases | something left | left and not flagged | other words taken |")
    print("| --- | --- | --- | --- | --- |")
    for group in groups:
        counts = (total[group, what] for what in ("cases", "left", "unflagged", "too much"))
        print(f"| {group} |", " | ".join(map(str, counts)), "|")


if __name__ == "__main__":
    main()
