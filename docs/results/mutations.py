"""The table of mutations.md: python docs/results/mutations.py. Each line of source is broken in a copy, and tests run.

The copy is of the last commit. Killed, it begins again; it took eight minutes beside other work.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[2]
RECONSTRUCTION = "tests/attacks/reconstruction"


@dataclass(frozen=True)
class Mutation:
    """A line that is broken.

    Attributes:
        what: What is then wrong, in words.
        file: Path of the source.
        old: Text that occurs once in it.
        new: Replacement.
        tests: Files that should notice.
    """

    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _of(what: str, file: str, old: str, new: str, *tests: str) -> Mutation:
    return Mutation(what, f"attacks/{file}.py", old, new, tuple(f"{RECONSTRUCTION}/{name}.py" for name in tests))


MUTATIONS = (
    _of(
        "equal fillings are tried after the truth",
        "reconstruction/guessing",
        "logs >= self._level",
        "logs > self._level",
        "test_guessing",
    ),
    _of(
        "a search that was cut off counts as a hit",
        "guesses/field",
        "self.before < guesses and not self.cut",
        "self.before < guesses",
        "test_guessing",
        "test_putting_back",
    ),
    _of(
        "the public model's cut search counts as a miss",
        "guesses/putting_back",
        "field.public.possibly_within(guesses)",
        "field.public.within(guesses)",
        "test_putting_back",
    ),
    _of(
        "a value in public forms is a secret",
        "reconstruction/secrets",
        "sum(count_in(page, value) for page in self._public)",
        "0",
        "test_secrets",
    ),
    _of(
        "a value that also occurs elsewhere on the page is a secret",
        "reconstruction/secrets",
        "sum(len(find_value(some, form.text(field))) for some in beside)",
        "0",
        "test_secrets",
    ),
    _of(
        "the guess is the one after the truth's place",
        "reconstruction/present_guesses",
        "field.attack.before + 1",
        "field.attack.before + 2",
        "test_attack",
    ),
    _of(
        "every form is a unit, providers or not",
        "reconstruction/units",
        "provider_identity(form.document.provider)",
        '""',
        "test_units",
    ),
    _of(
        "a warning where private and new forms share providers",
        "reconstruction/units",
        "sides[0].isdisjoint(sides[1])",
        "not sides[0].isdisjoint(sides[1])",
        "test_units",
    ),
    _of(
        "one unit that differs is enough for a leak",
        "guesses/putting_back",
        "FEWEST_DIFFERENT = 5",
        "FEWEST_DIFFERENT = 1",
        "test_putting_back",
        "test_attack",
    ),
    _of(
        "the permutation test is left out of the level",
        "guesses/putting_back",
        "p_values.append(self.permutation)",
        "pass",
        "test_putting_back",
        "test_attack",
    ),
    _of(
        "memory of forms is a leak",
        "reconstruction/finding",
        "return at_most_weak(level_of(",
        "return (level_of(",
        "test_attack",
    ),
    _of(
        "intervals of all-equal samples have no width",
        "guesses/resamples",
        "if (found.samples != found.value).any():",
        "if True:",
        "test_evaluation",
    ),
    _of(
        "a baseline of no hit is an exact 0",
        "guesses/resamples",
        "if min(right, self.units - right) >= RARE:",
        "if True:",
        "test_evaluation",
    ),
    _of(
        "losses of the target do not weigh",
        "reconstruction/proposals",
        "return log_mean(log_loss, log_public, settings.weight, settings.mean)",
        "return log_public",
        "test_search",
        "test_shortlist",
    ),
    _of(
        "the ratio is that of the reference to the target",
        "reconstruction/ratios",
        "np.asarray(reference.losses(attempts)) - np.asarray(target.losses(attempts))",
        "np.asarray(target.losses(attempts)) - np.asarray(reference.losses(attempts))",
        "test_ratios",
    ),
    _of(
        "tuning takes the least likely settings",
        "reconstruction/tuning",
        "if found > level:",
        "if found < level:",
        "test_tuning",
    ),
)


def main() -> int:
    """Print the table; the exit code counts mutations that no test noticed."""
    alive = 0
    print("| broken | where | test that failed first |\n| --- | --- | --- |")
    with TemporaryDirectory() as folder:
        command = ["git", "archive", "HEAD"]
        archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout  # noqa: S603 - our own
        with tarfile.open(fileobj=BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        for mutation in MUTATIONS:
            found = _first_failure(mutation, Path(folder))
            alive += found is None
            print(f"| {mutation.what} | `{mutation.file}` | {f'`{found}`' if found else '**none**'} |", flush=True)
    return alive


def _first_failure(mutation: Mutation, copy: Path) -> str | None:
    source = copy / mutation.file
    text = source.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        raise SystemExit(f"{mutation.file} holds {text.count(mutation.old)} times: {mutation.old}")
    source.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    done = subprocess.run(  # noqa: S603 - our own tests
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutation.tests],
        cwd=copy,
        env={**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    source.write_text(text, encoding="utf-8")
    failed = re.search(r"^(?:FAILED|ERROR) \S*/([^\s\[]+)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1):
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return failed[1] if failed else None


if __name__ == "__main__":
    sys.exit(main())
