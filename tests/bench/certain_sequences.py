"""False ones among certain sequences of updates with errors: python -m tests.bench.certain_sequences [RUNS [KIND]].

The embedded VT5 on all embedded forms but the first, on which the levels of the test were set. Updates of one page in
half precision and with noise, and controls: another form than the page's is stated, the client has another model, and a
piece of the page is not among those tried, so that whatever is named is false. A sequence is false if one of its words
or the question is not that of the page that was sent. The bound is Clopper and Pearson's, of 95 %, one-sided.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from unittest.mock import patch

import torch
from scipy.stats import beta

from pfl_audit.attacks.inversion.bag import bag_of, counts_of
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import WORDS
from pfl_audit.attacks.inversion.input_span import reader
from pfl_audit.attacks.inversion.input_span.ordered import Ordered
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.models.open import open_gradient_model
from tests.attacks.inversion import updates
from tests.attacks.inversion.room import Room, other_weights
from tests.bench.inversion_updates import FIXTURES

_FIRST = 10
"""Number of the first page: those before it were looked at."""
_PROMPT = (0, 0, 1000, 1000)
CHANGES: dict[str, Callable[[updates.Update], updates.Update]] = {
    "float16": lambda given: updates.rounded(given, torch.float16),
    "bfloat16": lambda given: updates.rounded(given, torch.bfloat16),
    "noise of 1e-4 an entry": lambda given: updates.noisy(given, 1e-4),
}


def main(many: int, kind: str = "") -> None:
    """Print a table of so many runs of each kind, each of another form as far as there are any; or until Ctrl-C."""
    model = open_gradient_model(str(FIXTURES / "vt5-finetuned"), "cpu")
    rooms = [Room(model, (template,)) for template in open_templates(FIXTURES / "templates")[1:]]
    counts: dict[str, list[tuple[int, int]]] = {name: [] for name in runs() if name.startswith(kind)}
    began = time.process_time()
    with suppress(KeyboardInterrupt):
        for run in range(many):
            for name, made in counts.items():
                made.append(runs()[name](rooms, run % len(rooms), _FIRST + run // len(rooms)))
                print(f"{time.process_time() - began:.0f} s: {name}, run {run + 1}: {made[-1]}", file=sys.stderr)
    print("| update | runs | certain sequences | false | false among them, at most |\n| --- | --- | --- | --- | --- |")
    for name, made in counts.items():
        print(line(name, made))
    print(line("all but controls", [one for name in CHANGES for one in counts.get(name, [])]))


def line(name: str, counts: list[tuple[int, int]]) -> str:
    """A row."""
    named, false = (sum(each[at] for each in counts) for at in range(2))
    return f"| {name} | {len(counts)} | {named} | {false} | {most(false, named)} |"


def most(false: int, of: int) -> str:
    """Upper bound of a rate, in per cent."""
    return f"{beta.ppf(0.95, false + 1, of - false):.0%}" if of > false else "–"


def runs() -> dict[str, Callable[[list[Room], int, int], tuple[int, int]]]:
    """Sequences named (0 or 1) and false ones, by what is done, of a form and the number of a page."""
    made = {}
    for name, change in CHANGES.items():
        made[name] = lambda rooms, at, page, change=change: judged(*sent(rooms[at], page, change))
    for name in ("float16", "bfloat16"):
        change = CHANGES[name]
        made[f"control: a piece is not tried, {name}"] = lambda rooms, at, page, change=change: without_a_piece(
            *sent(rooms[at], page, change)
        )
        made[f"control: another form is stated, {name}"] = lambda rooms, at, page, change=change: judged(
            *sent(rooms[at], page, change, stated=rooms[at - 1])
        )
        made[f"control: another model, {name}"] = lambda rooms, at, page, change=change: judged(
            *sent(rooms[at], page, change, seed=page + 1)
        )
    return made


def sent(
    room: Room,
    page: int,
    change: Callable[[updates.Update], updates.Update],
    stated: Room | None = None,
    seed: int | None = None,
) -> tuple[Room, Case]:
    """The case of a page, with its update changed."""
    case = room.case(page)
    given = dict(case.seen.gradient)
    if seed is not None:
        with other_weights(room.model, seed):
            given = dict(share(room.model, case.truths))
    seen = replace(case.seen, gradient=change(given))
    if stated is not None:
        seen = replace(seen, template=stated.placed[0])
    return room, Case(seen, case.truths)


def judged(room: Room, case: Case) -> tuple[int, int]:
    """Whether a sequence is named, and whether it is false."""
    bag = bag_of(room.model, case)
    if not bag.items[WORDS]:
        return 0, 0
    right, _, named = counts_of(room.model, case, bag)[WORDS][0].tolist()
    text = case.truths[0].text
    asked = text["ids"][(text["boxes"] == torch.tensor(_PROMPT)).all(dim=1)].tolist()
    return 1, int(right < named or list(bag.question) != asked[4:-4])


def without_a_piece(room: Room, case: Case) -> tuple[int, int]:
    """The same where one token of the page is not tried in its private box; whatever is named is false."""
    with piece_left_out(case):
        named = bool(bag_of(room.model, case).items[WORDS])
    return int(named), int(named)


@contextmanager
def piece_left_out(case: Case) -> Iterator[None]:
    """Searches that do not try the middle one of the page's tokens that may stand in private boxes."""
    search = reader.words_in_order

    def fewer(seen, tables, weights, found) -> Ordered:  # type: ignore[no-untyped-def]
        if found.allowed is None:
            return search(seen, tables, weights, found)
        text, form = case.truths[0].text, {tuple(box) for box in tables.rows(seen.template.boxes).tolist()}
        tokens = {int(token): at for at, token in enumerate(found.allowed.tokens)}
        boxes = {tuple(box): at for at, box in enumerate(found.allowed.boxes.tolist())}
        private = [
            (tokens[token], boxes[box])
            for token, box in zip(text["ids"].tolist(), map(tuple, text["boxes"].tolist()), strict=True)
            if token in tokens and box in boxes and not near(box, form) and box not in (_PROMPT, (0, 0, 0, 0))
        ]
        possible = found.allowed.pairs.copy()
        possible[private[len(private) // 2]] = False
        return search(seen, tables, weights, replace(found, allowed=replace(found.allowed, pairs=possible)))

    with patch.object(reader, "words_in_order", fewer):
        yield


def near(box: tuple[int, ...], others: set[tuple[int, ...]]) -> bool:
    """Whether a box is that of a word of the form, up to rounding."""
    return any(max(abs(one - two) for one, two in zip(box, other, strict=True)) <= 1 for other in others)


if __name__ == "__main__":
    torch.manual_seed(0)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 22, *sys.argv[2:])
