"""Subtractions that shared files allow a reader: python -m tests.bench.subtraction [DEMO ...].

The reader has all shared files of several reports, and the public scrubber. Once he also has the whole corpus, names
and labels of all suppliers; once he has one supplier's pages. Every published total is an inequality over pages, and a
linear program bounds what each small group of pages gives away. Each DEMO is a folder of ``pfl-audit demo``. Two
releases a company apart are simulated: every third company with a scrubbed page is the newcomer once.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import linprog

from pfl_audit.attacks.memorization.present import ALL_PAGES, CLEAN_PAGES, gap_metrics
from pfl_audit.attacks.memorization.scores import score_gap
from pfl_audit.core.disclosure_control import SMALLEST, Totals, share
from pfl_audit.core.results import Check, Metric, Results
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.scrubbing.questions import scrubbed_questions
from pfl_audit.documents.scrubbing.residual import residual_identifiers
from pfl_audit.documents.units import PROVIDER
from pfl_audit.files import sha256_json

FIXTURES = Path(__file__).parents[2] / "fixtures"
REPORTS = ("", "pre-trained", "with-privacy")
KEYS = ("provider_name", "provider_email")
CLASSES = {"members": True, "non-members": False}
GAP = "gap"
EXACT = 1e-6
RATES = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Shares of members' pages on which a simulated model gives the name."""
EACH = 3
"""One of so many companies is a newcomer."""


@dataclass(frozen=True)
class Total:
    """Bounds of a weighted sum of a score over pages.

    Attributes:
        weights: Page to its weight; of a gap, one over the pages of members, and less one over those of others.
    """

    weights: Mapping[str, float]
    low: float
    high: float


def main() -> None:
    """Print the table, as Markdown."""
    red = open_corpus(FIXTURES / "red" / "demo.jsonl", "red")
    print("| reports | reader | pages | companies | of |\n| --- | --- | --- | --- | --- |")
    for demo in map(Path, sys.argv[1:]):
        show_demo(demo, red)
    for name, masked, shared in (
        ("exact", False, False),
        ("masked, own stores", True, False),
        ("masked, shared store", True, True),
    ):
        show_releases(name, red, masked=masked, shared=shared)


def show_demo(demo: Path, red: Corpus) -> None:
    """Rows of the three reports on one corpus: what follows exactly, pseudonyms that recur, and digests."""
    found: set[str] = set()
    owner = {query.id: query.document.provider for query in red.queries}
    reports = [json.loads((demo / name / "results.json").read_text()) for name in REPORTS]
    pages = {key: scrubbed_pages(red, key) for key in KEYS}
    owner |= {
        page: unit for table in pages.values() for page, unit in zip(table["question"], table["unit"], strict=True)
    }
    for report in reports:
        for check in report["checks"]:
            if (key := check["id"].removeprefix("memorization.")) in KEYS:
                for family, totals in families(check["metrics"], pages[key]).items():
                    found |= determined(totals, owner, whole=family[0] == "ACC")
    companies = {owner[page] for page in found}
    print(
        f"| {demo.name}, three reports | whole corpus | {len(found)} exactly | {len(companies)} | {len(owner)} pages |"
    )
    names = [set(re.findall(r"(?:provider|page) [0-9a-f]{8}\b", json.dumps(one["checks"]))) for one in reports]
    again = set.union(*(one & other for at, one in enumerate(names) for other in names[:at]))
    print(f"| {demo.name}: pseudonyms in two reports | any | {len(again)} | | {len(set().union(*names))} |")
    digests = {data["sha256"] for one in reports for data in one["datasets"]}
    print(
        f"| {demo.name}: digests of a known corpus | whole corpus | {len(digests & {red.digest})} | | {len(digests)} |"
    )


def families(metrics: Iterable[Mapping[str, object]], pages: pd.DataFrame) -> dict[tuple[str, str], list[Total]]:
    """Totals of the same score of a model: over members, over others, and their gaps."""
    found: dict[tuple[str, str], list[Total]] = defaultdict(list)
    for one in metrics:
        score, _, kind = str(one["name"]).partition(" ")
        about = one["slice"]
        if kind in (*CLASSES, GAP) and one["value"] is not None and isinstance(about, dict):
            rows = pages[pages["clues"] == 0] if about["pages"] == CLEAN_PAGES else pages
            if about["pages"] in (ALL_PAGES, CLEAN_PAGES):
                sides = [frozenset(rows[rows["member"] == member]["question"]) for member in CLASSES.values()]
                if kind != GAP:
                    sides = [some if name == kind else frozenset() for name, some in zip(CLASSES, sides, strict=True)]
                found[score, str(about["model"])].append(total(one, *sides))
    return found


def total(metric: Mapping[str, object], members: frozenset[str], others: frozenset[str]) -> Total:
    """A published number as bounds of a weighted sum over pages: a rounded value lies within half a step."""
    value, step = float(str(metric["value"])), float(str(metric.get("step") or 0))
    low, high = value - step / 2, value + step / 2
    if metric.get("bound") == "at most":
        low, high = 0.0, step / 2
    elif metric.get("bound") == "at least":
        low, high = 1 - step / 2, 1.0
    if members and others:
        inside, outside = dict.fromkeys(members, 1 / len(members)), dict.fromkeys(others, -1 / len(others))
        return Total(inside | outside, low, high)
    pages = members | others
    return Total(dict.fromkeys(pages, 1.0), max(0.0, low) * len(pages), min(1.0, high) * len(pages))


def bounds(
    totals: Sequence[Total], smallest: int, owner: Mapping[str, str], *, whole: bool
) -> dict[frozenset[str], tuple[float, float]]:
    """Conclusions about each set of pages of fewer than ``smallest`` companies that lie in the same totals.

    Args:
        whole: Whether the score of a page is 0 or 1.
    """
    atoms: dict[tuple[float, ...], set[str]] = defaultdict(set)
    for page in frozenset[str]().union(*(one.weights for one in totals)):
        atoms[tuple(one.weights.get(page, 0.0) for one in totals)].add(page)
    every = list(atoms)
    matrix = np.array(every, dtype=np.float64).T
    limits = [(0.0, float(len(atoms[atom]))) for atom in every]
    rows = np.concatenate([matrix, -matrix])
    ends = np.array([*(one.high + EXACT for one in totals), *(EXACT - one.low for one in totals)])
    found = {}
    for at, atom in enumerate(every):
        if len({owner[page] for page in atoms[atom]}) < smallest:
            sides = []
            for sign in (1.0, -1.0):
                aim = np.zeros(len(every))
                aim[at] = sign
                solved = linprog(aim, A_ub=rows, b_ub=ends, bounds=limits)
                sides.append(sign * solved.fun if solved.success else None)
            if None not in sides:
                low, high = (math.ceil(sides[0] - 0.01), math.floor(sides[1] + 0.01)) if whole else sides
                found[frozenset(atoms[atom])] = low, high
    return found


def determined(totals: Sequence[Total], owner: Mapping[str, str], *, whole: bool) -> set[str]:
    """Pages of a small group whose summed score follows to a hundredth."""
    return {
        page
        for pages, (low, high) in bounds(totals, SMALLEST, owner, whole=whole).items()
        if high - low < 0.01
        for page in pages
    }


def scrubbed_pages(red: Corpus, key: str) -> pd.DataFrame:
    """Pages whose value the public scrubber takes off, with clues that a second look finds."""
    blue = open_corpus(FIXTURES / "blue-secrets", "blue")
    rows = [
        (query.id, query.document.provider, query.document.provider in red.members(),
         len(residual_identifiers(query.document, query.answers[0])))
        for query in scrubbed_questions(red, key, seed=0, blue=blue).queries
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["question", "unit", "member", "clues"])


def show_releases(name: str, red: Corpus, *, masked: bool, shared: bool) -> None:
    """Rows of two releases of one model, with and without a newcomer, for each company as the newcomer."""
    table = scrubbed_pages(red, "provider_name")
    owner = dict(zip(table["question"], table["unit"], strict=True))
    tries = 0
    right, guessed, exact = defaultdict(int), 0, defaultdict(set)
    pages_exact = defaultdict(set)
    for rate in RATES:
        scored = table.assign(
            acc=[_knows(page, member, rate) for page, member in zip(table["question"], table["member"], strict=True)]
        )
        scored = scored.assign(anls=scored["acc"])
        common = scored.groupby("member")["acc"].mean()
        cache: dict[str, Results] = {}
        for company in sorted(set(scored["unit"]))[::EACH]:
            own = scored[scored["unit"] == company]
            before, kept = published(scored[scored["unit"] != company], Totals(), masked=masked)
            after = cache.get("after")
            if after is None or shared:
                after, _ = published(scored, kept if shared else Totals(), masked=masked)
                cache["after"] = after
            kind = "members" if own["member"].iloc[0] else "non-members"
            parts = families((one.model_dump() for one in after.checks[0].metrics), scored)["ACC", "target"]
            old = families((one.model_dump() for one in before.checks[0].metrics), scored[scored["unit"] != company])
            found = bounds([*parts, *old["ACC", "target"]], SMALLEST, owner, whole=True)
            sides = [sums for some, sums in found.items() if some <= set(own["question"])]
            if sum(len(some) for some in found if some <= set(own["question"])) < len(own):
                sides = []
            low, high = (sum(part[at] for part in sides) for at in (0, 1))
            truth, most = float(own["acc"].sum()), len(own)
            base = float(common[own["member"].iloc[0]]) * most
            middle = min(max(base, low), high) if sides else base
            tries += 1
            guessed += (base > most / 2) == (truth > most / 2)
            right["whole corpus"] += (middle > most / 2) == (truth > most / 2)
            if sides and high - low < 0.01:
                exact["whole corpus"].add(company)
                pages_exact["whole corpus"] |= set(own["question"])
            # His own pages alone: of the totals he knows what is printed, and that his pages are the difference.
            ends = [_printed(one, kind) for one in (before, after)]
            if None not in ends and not masked:
                (n1, sum1), (n2, sum2) = ends
                if n2 - n1 == most:
                    exact["one supplier"].add(company)
                    pages_exact["one supplier"] |= set(own["question"])
                    right["one supplier"] += (sum2 - sum1 > most / 2) == (truth > most / 2)
                    continue
            right["one supplier"] += (base > most / 2) == (truth > most / 2)
    for reader in ("whole corpus", "one supplier"):
        more = 100 * (right[reader] - guessed) / tries
        print(f"| two releases a company apart, {name} | {reader} | {len(pages_exact[reader])} exactly | "
              f"{len(exact[reader])} exactly; guesses {more:+.1f} points over chance | {len(owner)} pages, "
              f"{table['unit'].nunique()} companies |", flush=True)  # fmt: skip


def published(pages: pd.DataFrame, before: Totals, *, masked: bool) -> tuple[Results, Totals]:
    """A report on pages."""
    metrics: list[Metric] = []
    for slice_, rows in ((ALL_PAGES, pages), (CLEAN_PAGES, pages[pages["clues"] == 0])):
        gap = score_gap(rows, "acc", np.random.default_rng(0))
        metrics += gap_metrics("ACC", slice_, "target", gap, PROVIDER)
    check = Check(id="memorization.provider_name", family="memorization", title="x", status="ran", metrics=metrics)
    results = SAMPLE.model_copy(update={"checks": [check], "datasets": []})
    return share(results, SMALLEST, b"", before) if masked else (results, before)


def _printed(results: Results, kind: str) -> tuple[int, float] | None:
    """Number of pages and their sum, as an exact report prints them."""
    one = next(
        one for one in results.checks[0].metrics if one.name == f"ACC {kind}" and one.slice["pages"] == ALL_PAGES
    )
    return (one.n, one.n * one.value) if isinstance(one.n, int) and one.value is not None else None


def _knows(page: str, member: bool, rate: float) -> float:
    """A model that gives the name on a share of the members' pages, and on 2 % of others."""
    return float(int(sha256_json([page, rate])[:8], 16) / 2**32 < (rate if member else 0.02))


def _sample() -> Results:
    from tests.reports.test_html import results

    return results()


SAMPLE = _sample()

if __name__ == "__main__":
    main()
