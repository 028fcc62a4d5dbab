"""Judgements of forged training records, alone and in pairs: python -m tests.bench.forgeries."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from tests.privacy.test_mechanism import FORGERIES, HARMLESS, forged, worth


def main() -> None:
    """Print the table of single changes, and how the pairs of those that cannot be true are judged."""
    for name, change in FORGERIES.items():
        print(f"| {name} | {worth(forged(change))} |")
    names = [name for name in FORGERIES if name not in HARMLESS]
    pairs = Counter(worth(forged(FORGERIES[one], FORGERIES[other])) for one, other in combinations(names, 2))
    print(f"{pairs.total():,} pairs:", ", ".join(f"{count} {found}" for found, count in pairs.most_common()))


if __name__ == "__main__":
    main()
