"""Companies, their pages and two models that read them, none of which was trained on: what an attack could mistake.

Not drawn by anything that the attacks assume: a model finds the key of a share of the questions; whether it then reads
the value depends on how hard the page is, else it guesses, whatever the page (``models``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import expit, log_expit

FOUND: Final = 0.45
"""Share of the questions whose key the model under audit finds."""


@dataclass
class World:
    """Companies without any leak.

    Attributes:
        labels: Membership, bool (n,).
        hard: How hard the pages of each company are, in deviations, float (n,).
        questions: Number of questions about each, int (n,).
        documents: What can be seen in the documents, float (n, columns).
        groups: Name of the group of each company.
        found: Share of the questions whose key the control finds, over that of the model under audit.
        bias: What the model under audit alone adds to its confidence, by company, float (n,).
        coarse: Whether scores are shares of a few answers.
    """

    labels: np.ndarray
    hard: np.ndarray
    questions: np.ndarray
    documents: np.ndarray
    groups: list[str]
    found: float = 1.0
    bias: np.ndarray = field(default_factory=lambda: np.zeros(1))
    coarse: bool = False


def equal(rng: np.random.Generator, members: int, others: int) -> World:
    """Companies of both classes alike, and a control that reads as well."""
    labels = rng.permutation(np.arange(members + others) < members)
    n = len(labels)
    names = [f"company {number}" for number in range(n)]
    return World(labels, rng.normal(size=n), rng.integers(6, 21, n), rng.normal(size=(n, 3)), names)


def unequal(rng: np.random.Generator, members: int, others: int) -> World:
    """One member for nine others."""
    return equal(rng, max(1, (members + others) // 10), (members + others) * 9 // 10)


def heavy(rng: np.random.Generator, members: int, others: int) -> World:
    """Numbers of questions with a long tail."""
    one = equal(rng, members, others)
    one.questions = np.minimum(rng.geometric(0.08, len(one.labels)) + 2, 300)
    return one


def ties(rng: np.random.Generator, members: int, others: int) -> World:
    """Scores of few values."""
    one = equal(rng, members, others)
    one.coarse = True
    return one


def easier(rng: np.random.Generator, members: int, others: int, by: float = 0.5) -> World:
    """Members' pages are easier, nothing in the documents shows it, and the control reads as well."""
    one = equal(rng, members, others)
    one.hard = one.hard - by * one.labels
    return one


def floor(rng: np.random.Generator, members: int, others: int) -> World:
    """Members' pages are easier, and the control reads nothing."""
    one = easier(rng, members, others)
    one.found = 0.05
    return one


def twice(rng: np.random.Generator, members: int, others: int) -> World:
    """Members' pages are harder, and the control finds twice as many keys."""
    one = easier(rng, members, others, -0.5)
    one.found = 2.0
    return one


def seen(rng: np.random.Generator, members: int, others: int) -> World:
    """Members' pages are easier, and the documents show which pages are easy."""
    one = easier(rng, members, others, 0.8)
    one.documents[:, 0] = one.hard + 0.3 * rng.normal(size=len(one.labels))
    return one


def groups_of_ten(rng: np.random.Generator, members: int, others: int) -> World:
    """Groups of ten, each wholly in one class; difficulty goes by group."""
    one = equal(rng, members, others)
    place = np.empty(len(one.labels), dtype=int)
    for value in (True, False):
        place[one.labels == value] = np.arange(int((one.labels == value).sum())) // 10
    one.groups = [f"{label}-{at}" for label, at in zip(one.labels, place, strict=True)]
    shifts = dict(zip(sorted(set(one.groups)), rng.normal(size=len(one.groups)), strict=False))
    one.hard = np.array([shifts[group] for group in one.groups]) + 0.5 * rng.normal(size=len(one.labels))
    return one


def vendor(rng: np.random.Generator, members: int, others: int) -> World:
    """Companies of both classes share templates of vendors, by which their pages are hard; a vendor is a group."""
    one = equal(rng, members, others)
    of = rng.integers(0, max(2, len(one.labels) // 8), len(one.labels))
    one.groups = [f"vendor {number}" for number in of]
    one.hard = rng.normal(size=of.max() + 1)[of] + 0.5 * rng.normal(size=len(of))
    return one


def giant(rng: np.random.Generator, members: int, others: int) -> World:
    """One member has forty times the questions of the others, and easy pages."""
    one = equal(rng, members, others)
    first = int(np.flatnonzero(one.labels)[0])
    one.questions[first], one.hard[first] = 500, -3.0
    return one


def wrong_labels(rng: np.random.Generator, members: int, others: int) -> World:
    """Five per cent of the labels are wrong, of companies whose pages are easier for members."""
    one = easier(rng, members, others)
    wrong = rng.random(len(one.labels)) < 0.05
    one.labels = one.labels ^ wrong
    return one


def other_year(rng: np.random.Generator, members: int, others: int) -> World:
    """Dates of members' pages are of another year on four of five companies, and nothing follows from it."""
    one = equal(rng, members, others)
    one.documents[:, 1] = (one.labels ^ (rng.random(len(one.labels)) < 0.2)) + 0.1 * rng.normal(size=len(one.labels))
    return one


def resolution(rng: np.random.Generator, members: int, others: int) -> World:
    """Scans of members have another resolution, which makes them easier to read."""
    one = other_year(rng, members, others)
    one.hard = one.hard - 0.6 * (one.documents[:, 1] > 0.5)
    return one


def language(rng: np.random.Generator, members: int, others: int) -> World:
    """A third of the members writes in another language, which both models read badly."""
    one = equal(rng, members, others)
    other = one.labels & (rng.random(len(one.labels)) < 0.33) | (rng.random(len(one.labels)) < 0.1)
    one.documents[:, 2] = other + 0.05 * rng.normal(size=len(one.labels))
    one.hard = one.hard + 1.0 * other
    return one


def long_pages(rng: np.random.Generator, members: int, others: int) -> World:
    """The model under audit alone is over-confident on long pages, and members' pages are longer."""
    one = equal(rng, members, others)
    length = rng.normal(size=len(one.labels)) + 0.5 * one.labels
    one.documents[:, 0] = length
    one.bias = 0.5 * length
    return one


def both_classes(rng: np.random.Generator, members: int, others: int) -> World:
    """A tenth of the companies has documents in both classes, under two names of one group."""
    one = easier(rng, members, others)
    inside, outside = (rng.permutation(np.flatnonzero(one.labels == value)) for value in (True, False))
    for first, second in zip(inside[: members // 10], outside[: members // 10], strict=False):
        one.groups[second] = one.groups[first]
        one.hard[second] = one.hard[first]
    return one


WORLDS: Final[dict[str, Callable[[np.random.Generator, int, int], World]]] = {
    one.__name__.replace("_", " "): one
    for one in (
        equal, unequal, heavy, ties, easier, floor, twice, seen, groups_of_ten, vendor, giant, wrong_labels,
        other_year, resolution, language, long_pages, both_classes,
    )
}  # fmt: skip
"""Name to a world; those in which the documents alone differ, and hidden differences of pages, are among them."""


def models(world: World, rng: np.random.Generator, leak: float = 0.0) -> tuple[pd.DataFrame, pd.DataFrame, np.ndarray]:
    """Answers of the model under audit and of the control to every question, and the company that each is about.

    Args:
        world: Companies.
        rng: Draws pages and answers.
        leak: What training on a company adds to the logit of an answer about it.

    Returns:
        Two frames with ``acc``, ``nls`` and ``log_odds_ratio``, here the log-likelihood of the right answer, a row a
        question; the number of its company, int (questions,).
    """
    company = np.repeat(np.arange(len(world.labels)), world.questions)
    pages = world.hard[company] + rng.normal(size=len(company))
    order = rng.random(len(company))  # the keys that the weaker model finds are among those of the stronger
    added = np.broadcast_to(world.bias, world.labels.shape) + leak * world.labels
    frames = []
    for found, plus in ((FOUND, added[company]), (FOUND * world.found, 0.0)):
        logit = np.where(order < found, 1.0 - pages, -2.5) + plus + 0.7 * rng.normal(size=len(company))
        right = (rng.random(len(company)) < expit(logit)).astype(np.float64)
        frames.append(
            pd.DataFrame({"acc": right, "nls": right, "log_odds_ratio": right if world.coarse else log_expit(logit)})
        )
    return frames[0], frames[1], company
