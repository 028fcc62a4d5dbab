"""CPU seconds and memory of the statistics of membership inference, by the number of providers: no model is asked.

Run: OMP_NUM_THREADS=1 python -m tests.bench.membership_size [--profile] [PROVIDERS ...]

All attacks with 5 seeds and three subsets, on drawn answers of five models (the one under audit, the public one, a
control and two references), with the bootstraps and permutations of an audit. A provider has two pages of 60 words of
5,000, and twelve questions in the mean, as in the papers' RED (660 providers, 8,100 questions). Each size is a process
of its own. Memory is the peak above that of the process with all libraries loaded and the questions drawn.
"""

from __future__ import annotations

import cProfile
import hashlib
import pstats
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import cast

import numpy as np

from pfl_audit.attacks.membership import run as _libraries  # noqa: F401
from pfl_audit.attacks.membership.attack import ATTACK
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import Answers, QueryEngine
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.fitness.blind import PERMUTATIONS as BLIND_PERMUTATIONS
from pfl_audit.metrics.intervals import RESAMPLES
from pfl_audit.metrics.permutation import PERMUTATIONS
from pfl_audit.models.protocol import Response
from pfl_audit.progress import Silent

SIZES = (200, 660, 4149)
PAGES = 2
WORDS = 60
VOCABULARY = 5000
QUESTIONS = 6
"""A page, in the mean."""


def main(sizes: list[int], profile: bool) -> None:
    """Print a line a size."""
    print(
        f"{RESAMPLES} resamples, {PERMUTATIONS} permutations, {BLIND_PERMUTATIONS} of the documents alone, 5 seeds, "
        "s of 0, 5 and 10"
    )
    sys.stdout.flush()
    for size in sizes:
        given = ["--profile"] if profile else []
        subprocess.run([sys.executable, "-m", "tests.bench.membership_size", *given, "--one", str(size)], check=True)


def one(size: int, profile: bool) -> None:
    """Judge all attacks on so many providers."""
    red = drawn(size)
    engines = [Drawn(red, name) for name in ("target", "public", "control", "first", "second")]
    target, public, control, *references = (cast("QueryEngine", engine) for engine in engines)
    profiler = cProfile.Profile() if profile else None
    with TemporaryDirectory() as folder:
        context = QuestionContext(
            target=target, pretrained=public, control=control, references=tuple(references), red=red,
            checks=frozenset(spec.id for spec in ATTACK.specs), seed=0, budget=Budget.shared(1),
            redactor=Redactor("salt"), evidence=EvidenceBox(Path(folder)), progress=Silent(),
        )  # fmt: skip
        resting, began = peak(), time.process_time()
        if profiler:
            profiler.enable()
        checks = ATTACK.run(context, ATTACK.Settings(seeds=5))
        if profiler:
            profiler.disable()
        seconds = time.process_time() - began - sum(engine.seconds for engine in engines)
    ran = [check.id for check in checks if check.status == "ran"]
    finding = next(check.finding for check in checks if check.finding)
    print(
        f"{size} providers, {len(red.queries)} questions: {seconds:.1f} CPU s, {(peak() - resting) / 1e6:.0f} MB above "
        f"{resting / 1e6:.0f}: {len(ran)} checks, {finding.level}, numbers {digest(checks)}"
    )
    if profiler:
        pstats.Stats(profiler).sort_stats("tottime").print_stats(45)


def digest(checks: Sequence[object]) -> str:
    """Hash of all checks: equal where every number is equal to the last digit."""
    return hashlib.sha256("".join(map(repr, checks)).encode()).hexdigest()[:12]


class Drawn:
    """A model whose answers are drawn; the one under audit answers better about members.

    Attributes:
        seconds: CPU seconds that it took, which are the model's.
    """

    def __init__(self, red: Corpus, name: str) -> None:
        self.model = SimpleNamespace()
        self.seconds = 0.0
        self._members = {unit for unit in red.by_unit() if red.label(unit) is Membership.MEMBER}
        self._target = name == "target"
        self._rng = np.random.default_rng(list(name.encode()))

    def ask(self, queries: Sequence[Query], purpose: str) -> Answers:
        """Answer all of them."""
        began = time.process_time()
        uniform, loss = self._rng.random((len(queries), 2)), self._rng.exponential(size=len(queries))
        responses = {}
        for query, (chance, sure), nats in zip(queries, uniform.tolist(), loss.tolist(), strict=True):
            known = self._target and query.document.unit in self._members
            answer = query.answers[0] if chance < (0.55 if known else 0.5) else "nothing"
            responses[query.id] = Response(answer, 0.5 + sure / 2, nats - 0.1 * known, 3)
        self.seconds += time.process_time() - began
        return Answers(responses)


def drawn(companies: int) -> Corpus:
    """Pages of so many companies, half of them members, with questions of several keys."""
    rng = np.random.default_rng(0)
    words = np.array(
        [f"{a}{b}{c}{d}" for a in "bdfgklmnpr" for b in "aeiou" for c in "bdfgklmnpr" for d in "aeiouäöüyw"]
    )
    often = 1 / np.arange(1, VOCABULARY + 1)
    queries, membership = [], {}
    for number in range(companies):
        name = f"Company {rng.choice(words)} {number}"
        membership[name] = Membership.MEMBER if number % 2 else Membership.NON_MEMBER
        for which in range(PAGES):
            some = rng.choice(words, size=WORDS, p=often / often.sum())
            edges = np.sort(rng.random((WORDS + 3, 2, 2)), axis=1).reshape(-1, 4).astype(np.float32)
            page = Document(f"{number}x{which}_1", name, (*name.split(), *some), edges)
            queries.append(Query(f"{page.id}-name", page, "Who issued it?", (name,), "provider_name"))
            for asked in range(int(rng.integers(0, 2 * QUESTIONS - 1))):
                at = int(rng.integers(WORDS))
                key = f"key {asked % 4}"
                queries.append(Query(f"{page.id}-{asked}", page, f"What is {key}?", (str(some[at]),), key))
    return Corpus(tuple(queries), membership)


def peak() -> int:
    """Most memory that this process has held, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    arguments = [part for part in sys.argv[1:] if part != "--profile"]
    if arguments[:1] == ["--one"]:
        one(int(arguments[1]), "--profile" in sys.argv)
    else:
        main([int(size) for size in arguments] or list(SIZES), "--profile" in sys.argv)
