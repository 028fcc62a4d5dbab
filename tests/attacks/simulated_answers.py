"""Answers without a model: pages whose value was taken off, questions about new pages, and ids."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

EASE = {"total_amount": 0.9, "tax_number": 0.2, "provider_name": 0.5}
"""How often a question of each key is answered right on a page of the middle length."""


def pages(
    rng: np.random.Generator,
    members: int = 20,
    others: int = 20,
    *,
    known: float = 0.1,
    more: float = 0.0,
    heavy: bool = True,
    shift: float = 0.0,
) -> pd.DataFrame:
    """A table of pages with providers of heavy-tailed sizes, whose pages hang together, and a control beside it.

    Args:
        rng: Draws all of it.
        members: Providers.
        others: Likewise.
        known: Share of providers whose pages the target gets right.
        more: What is added to that for members.
        heavy: Numbers of pages have a heavy tail; else two a provider.
        shift: Added to the likelihood ratio of members.
    """
    rows = []
    for number in range(members + others):
        member = number < members
        size = min(200, int(1 + rng.pareto(1.2) * 2)) if heavy else 2
        right = rng.random() < known + more * member
        level = rng.standard_t(3)
        for page in range(size):
            acc = float(right and rng.random() < 0.9)
            loss = round(3.0 - level + rng.normal(), 1)  # rounded, so that there are ties
            rows.append(
                {
                    "page": f"{number}-{page}",
                    "unit": f"p{number:04d}",
                    "member": member,
                    "clues": 0,
                    "acc": acc,
                    "anls": max(acc, float(rng.choice([0.0, 0.6], p=[0.9, 0.1]))),
                    "conf": 0.5,
                    "loss": loss - shift * member,
                    "exposure": float(4 - np.log2(rng.integers(1, 17))) if page == 0 else np.nan,
                    "acc_control": 0.0,
                    "anls_control": 0.0,
                    "loss_control": 3.0,
                    "exposure_control": 0.5 if page == 0 else np.nan,
                }
            )
    frame = pd.DataFrame(rows)
    return frame.assign(ratio=frame["loss_control"] - frame["loss"])


def questions(
    rng: np.random.Generator,
    members: int = 50,
    others: int = 50,
    *,
    better: float = 0.0,
    mix: bool = False,
    long: bool = False,
    heavy: bool = False,
) -> pd.DataFrame:
    """Questions of three keys on pages of three lengths; a provider's layout makes all of its pages easier or not.

    Args:
        rng: Draws all of it.
        members: Providers.
        others: Likewise.
        better: Added to the chance of a right answer on members' pages.
        mix: Members are asked easy questions.
        long: Members have longer pages, which are easier.
        heavy: Providers have numbers of questions with a heavy tail.
    """
    size = members + others
    counts = np.minimum(300, 4 + rng.pareto(1.1, size=size) * 4).astype(int) if heavy else np.full(size, 12)
    who = np.repeat(np.arange(size), counts)
    member = who < members
    even = np.full(3, 1 / 3)
    key = _drawn(rng, member, np.array([0.7, 0.1, 0.2]) if mix else even, even)
    length = _drawn(rng, member, np.array([0.1, 0.2, 0.7]) if long else even, even)
    words = np.array([50, 150, 400])[length] + rng.integers(40, size=len(who))
    ease = np.array(list(EASE.values()))[key] + (rng.normal(size=size) * 0.1)[who] + better * member
    right = rng.random(len(who)) < ease + (words - 150) / 1000
    return pd.DataFrame(
        {
            "question": np.arange(len(who)).astype(str),
            "unit": [f"p{number:03d}" for number in who],
            "member": member,
            "key": np.array(list(EASE))[key],
            "words": words,
            "acc": right.astype(float),
        }
    )


def _drawn(rng: np.random.Generator, member: np.ndarray, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
    """0, 1 or 2 by the odds of each class."""
    odds = np.where(member[:, None], inside, outside).cumsum(axis=1)
    return (rng.random(len(member))[:, None] > odds[:, :2]).sum(axis=1)


def numbers(rng: np.random.Generator, count: int, digits: int) -> list[str]:
    """So many different ids of so many digits."""
    drawn = rng.choice(10**digits, size=count, replace=False)
    return [f"{number:0{digits}d}" for number in drawn]


def repeated(
    rng: np.random.Generator,
    sizes: Sequence[int],
    *,
    others: int | None = None,
    shifts: Sequence[float] = (0.0, 0.0, 0.0, 0.0),
    heavy: bool = False,
) -> pd.DataFrame:
    """Pages of members whose values stand on 1, 2, 5 and 20 training pages.

    Args:
        rng: Draws all of it.
        sizes: Members of each number of training pages.
        others: Non-members; as many as members by default.
        shifts: Added to the likelihood ratio of each.
        heavy: As ``pages`` takes it; those with most pages then stand on most training pages.
    """
    members = sum(sizes)
    frame = pages(rng, members, members if others is None else others, heavy=heavy)
    place = frame["unit"].str[1:].astype(int)
    order = np.arange(members)
    if heavy:
        counts = frame[frame["member"]].groupby("unit").size().to_numpy()
        order = np.argsort(np.argsort(counts, kind="stable"), kind="stable")
    group = np.repeat(np.arange(len(sizes)), sizes)[order]
    held = np.append(np.array([1, 2, 5, 20])[group], 0)
    shift = np.append(np.array(shifts)[group], 0.0)
    at = np.minimum(place, members)
    return frame.assign(held=held[at], loss=frame["loss"] - shift[at], ratio=frame["ratio"] + shift[at])
