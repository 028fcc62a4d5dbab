"""What closed forms make of updates as clients send them.

    python -m tests.bench.inversion_updates [PAGES [MODEL [KIND]]]

A small LayoutLMv3 with random weights, the embedded Donut, the embedded VT5 and all three at base size with random
weights; drawn forms. MODEL and KIND are parts of names. One row for each kind of update, as Markdown: private tokens in
place, private tokens in any order with the false ones beside them, the level of each finding at the budget of an audit
with four findings. The last rows are controls: what was sent is not of the page that is scored.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from transformers import LayoutLMv3Config, LayoutLMv3ForQuestionAnswering

from pfl_audit.attacks.inversion.bag import bag_of, lower_share
from pfl_audit.attacks.inversion.bag import counts_of as bag_counts
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case
from pfl_audit.attacks.inversion.controls import ANY_ORDER, BOXES, COORDINATES, SAMPLES, TOKENS
from pfl_audit.attacks.inversion.decision import decide
from pfl_audit.attacks.inversion.present_bag import many
from pfl_audit.errors import AuditError
from pfl_audit.models.donut.small import SmallSize, new_donut, save_donut
from pfl_audit.models.gradient_protocol import GradientModel
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.vt5.checkpoint import save_vt5
from pfl_audit.models.word_tables import LooksUpWords
from pfl_audit.training.scratch import new_vt5
from tests.attacks.inversion import updates
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.room import BUDGET, Room, other_weights
from tests.attacks.inversion.template.drawn import form

FIXTURES = Path(__file__).parents[2] / "fixtures"
OTHER_LABELS = ("Sum:", "Place:", "Who:")
UP = 0.02
"""Standard deviation of the halves B of adapters in a later round."""
_WORD_TABLES = ("word_embeddings", "embed_tokens", "lm_head", "shared")
Make = Callable[[Room, int], Case]


def main(pages: int, chosen: str = "", kind: str = "") -> None:
    """Print a table for each model."""
    with tempfile.TemporaryDirectory() as folder:
        for name, model_in in MODELS.items():
            if chosen not in name:
                continue
            room = Room(open_gradient_model(str(model_in(Path(folder))), "cpu"), (form(), form(OTHER_LABELS)))
            print(f"\n{name}, {pages} pages\n")
            print(
                "| what is shared | tokens in place | boxes | level | in any order | false | coordinates | "
                "with all before | false | level | cause | s a page |"
            )
            print(f"|{' --- |' * 12}")
            for each, make in kinds().items():
                if kind in each:
                    print(row(room, each, make, pages), flush=True)


def _base_vt5(folder: Path) -> Path:
    save_vt5(new_vt5("base", 1000, seed=0), FIXTURES / "vt5-finetuned", folder / "vt5", extra={})
    return folder / "vt5"


def _base_donut(folder: Path) -> Path:
    """The decoder of Donut's base, 1,024 wide; its encoder is small, since the text's closed forms do not read it."""
    size = SmallSize(layers=4, d_model=1024, decoder_heads=16, ffn=4096, height=64, width=64, longest=128)
    save_donut(new_donut(size, 57_532, seed=0), FIXTURES / "donut", folder / "donut")
    return folder / "donut"


def _base_layoutlmv3(folder: Path) -> Path:
    """The sizes of LayoutLMv3's base, with the small one's tokenizer."""
    (folder / "base").mkdir()
    small = save_reader(folder / "base", "v3")[0]
    torch.manual_seed(0)
    network = LayoutLMv3ForQuestionAnswering(LayoutLMv3Config(max_position_embeddings=514))
    network.save_pretrained(small)
    pixels = small / "preprocessor_config.json"
    pixels.write_text(json.dumps(json.loads(pixels.read_text()) | {"size": {"height": 224, "width": 224}}))
    return small


MODELS: dict[str, Callable[[Path], Path]] = {
    "LayoutLMv3 (small, random weights)": lambda folder: save_reader(folder, "v3")[0],
    "Donut (embedded)": lambda _: FIXTURES / "donut",
    "VT5 (embedded)": lambda _: FIXTURES / "vt5-finetuned",
    "VT5 of base size (random weights)": _base_vt5,
    "Donut of base width (random weights)": _base_donut,
    "LayoutLMv3 of base size (random weights)": _base_layoutlmv3,
}


def row(room: Room, kind: str, make: Make, pages: int) -> str:
    """One line."""
    parts, bags, causes, seconds = [], [], set(), 0.0
    try:
        for page in range(pages):
            case = make(room, page)
            began = time.process_time()
            bag = bag_of(room.model, case)
            seconds += time.process_time() - began
            causes |= {str(limit.cause) for limit in bag.limits}
            if not isinstance(room.model, LooksUpWords):
                parts.append(room.counts(case))
            bags.append(bag_counts(room.model, case, bag))
    except AuditError as error:
        return f"| {kind} |{' – |' * 9} {str(error).split('.')[0]} | – |"
    found = decide(parts, BUDGET) if parts else None
    shown = decide([{name: lower_share(each[name]) for name in each} for each in bags], BUDGET)
    assert shown is not None
    right, wanted, named = np.sum([each[ANY_ORDER][0] for each in bags], axis=0).tolist()

    def share_of(measure: str) -> str:
        if not parts or measure not in parts[0]:
            return "–"
        one, of = np.sum([part[measure][0] for part in parts], axis=0).tolist()
        return f"{one} of {of}"

    level, edges = found.level if found else "–", "–"
    if COORDINATES in bags[0]:
        edges = "{} of {}".format(*np.sum([each[COORDINATES][0] for each in bags], axis=0).tolist())
    rows = [bag[SAMPLES][0] for bag in bags if SAMPLES in bag]
    in_samples, of_samples, as_samples = np.sum(rows, axis=0).tolist() if rows else (0, 0, 0)
    samples = (f"{in_samples} of {of_samples}", str(as_samples - in_samples)) if rows else ("–", "–")
    cells = [kind, share_of(TOKENS), share_of(BOXES), level, f"{right} of {wanted}", str(named - right), edges,
             *samples, shown.level, ", ".join(sorted(causes)) or "–", f"{seconds / pages:.2f}"]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def kinds() -> dict[str, Make]:
    """Updates by what is done to them."""
    halves = {"bfloat16": torch.bfloat16, "float16": torch.float16}
    changed: dict[str, Callable[[updates.Update], updates.Update]] = {
        "one gradient": lambda given: given,
        "clipped to 1": updates.clipped,
        **{name: lambda given, kind=kind: updates.rounded(given, kind) for name, kind in halves.items()},  # type: ignore[misc]
        "top 1 % of each tensor": updates.sparse,
        "int8, a scale for each row": lambda given: updates.integers(given, by_row=True),
        "int8, a scale for each tensor": updates.integers,
        "4 bits, stochastic": lambda given: updates.integers(given, 7, seed=1),
        "NF4": updates.nf4,
        "word table frozen": lambda given: updates.frozen(given, *_WORD_TABLES),
        "all embeddings frozen": lambda given: updates.frozen(given, "mbed", "lm_head", "shared"),
        "q and v alone": lambda given: updates.alone(given, *updates.QUERIES_AND_VALUES),
        "adapters of rank 6, first round": updates.adapters,
        "adapters of rank 6, a later round": lambda given: updates.adapters(given, up=UP),
        "adapters of rank 6 alone, a later round": lambda given: updates.alone(
            updates.adapters(given, up=UP), ".lora_"
        ),
        "noise of 1e-4 an entry": lambda given: updates.noisy(given, 1e-4),
        "noise of 1e-2 an entry": lambda given: updates.noisy(given, 1e-2),
        "noise of 1 an entry": lambda given: updates.noisy(given, 1.0),
    }
    made: dict[str, Make] = {name: _changed(change) for name, change in changed.items()}
    for steps in (1, 5, 20):
        made[f"SGD, rate 1e-3, {many(steps, 'step')}"] = _trained(steps, updates.sgd(1e-3))
    for steps in (1, 5, 20):
        made[f"AdamW, rate 1e-4, {many(steps, 'step')}"] = _trained(steps, updates.adamw(1e-4))
    made["dropout of 0.1"] = lambda room, page: room.case(
        page, gradient=updates.dropped(room.model, room.case(page).truths)
    )
    for batch in (2, 4, 8):
        made[f"batch of {batch}"] = lambda room, page, batch=batch: room.case(page, batch=batch)  # type: ignore[misc]
    made["sum of 5 clients"] = _summed
    made["control: another page of the form"] = lambda room, page: _other(room, page, 2 * page)
    made["control: a page of another form"] = lambda room, page: _other(room, page, 2 * page + 1)
    made["control: another page, another model"] = _other_model
    made["control: noise alone"] = _changed(lambda given: {n: torch.randn(p.shape) for n, p in given.items()})
    return made


def _changed(change: Callable[[updates.Update], updates.Update]) -> Make:
    return lambda room, page: room.case(page, gradient=change(dict(room.case(page).seen.gradient)))


def _trained(steps: int, optimizer: updates.Optimizer) -> Make:
    def make(room: Room, page: int) -> Case:
        case = room.case(page, gradient=updates.trained(room.model, room.case(page).truths, steps, optimizer))
        return replace(case, seen=replace(case.seen, steps=steps))

    return make


def _summed(room: Room, page: int) -> Case:
    case = room.case(page, batch=5)
    return room.case(page, batch=5, gradient=updates.added([share(room.model, [one]) for one in case.truths]))


def _other(room: Room, page: int, number: int) -> Case:
    return room.case(page, gradient=share(room.model, [room.clients.page("batch", number)]))


def _other_model(room: Room, page: int) -> Case:
    model: GradientModel = room.model
    with other_weights(model, page):
        given = share(model, [room.clients.page("batch", 2 * page)])
    return room.case(page, gradient=given)


if __name__ == "__main__":
    torch.manual_seed(0)
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, *sys.argv[2:])
