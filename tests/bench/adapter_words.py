"""How many words adapters give away: python -m tests.bench.adapter_words [MODEL [COUNTS [PAGES [SEED]]]],
or forms [PAGES], or places [PAGES].

The embedded VT5 (192 wide) and one of base size (768 wide) with random weights. A page is the first embedded form with
1, 2, 4, ... private words of two random pieces of the whole vocabulary, in lines of random boxes. The client sends the
gradient of adapters of rank 6 on q and v in a later round (their halves B are random), the spatial embedding and the
layer that patches are given to. Tokens are those of the private words and of the question that neither form nor prompt
have. UTR has the same rows and boxes; in the last two columns what this attack takes out is taken out for it as well.

``forms`` are real fillings of the first two embedded forms on the embedded VT5, a row for each kind of update.
``places`` are drawn forms on the embedded Donut, on a small LayoutLMv3 with random weights, and on one that sees no
page, whose closed forms place the tokens.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from pfl_audit.attacks.inversion.adapters.explanation import outside_of, room_in
from pfl_audit.attacks.inversion.adapters.recovery import span_of_patches
from pfl_audit.attacks.inversion.adapters.rows import halves_of
from pfl_audit.attacks.inversion.analytic.noise import noise_of
from pfl_audit.attacks.inversion.bag import bag_of, counts_of
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Case, Observation, Truth
from pfl_audit.attacks.inversion.controls import ANY_ORDER, TOKENS
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.attacks.inversion.input_span.recovery import inputs_of_span
from pfl_audit.attacks.inversion.table_words import LookedUp, words_of_tables
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.samples import Sample
from pfl_audit.models.vt5.gradients import Vt5Gradients
from tests.attacks.inversion import updates
from tests.attacks.inversion.batch_models import FORMS, save_model
from tests.attacks.inversion.conftest import save_reader
from tests.attacks.inversion.room import Room
from tests.bench.input_span import OTHERS, models
from tests.bench.inversion_updates import FIXTURES, UP, Make
from tests.bench.inversion_updates import kinds as all_kinds
from tests.bench.utr import bag_of_words

_PIECES = 2
_LINE = 8
"""Words of a line."""
_SAID = ("tokens", "boxes", "dropout", "no gradient of the spatial", "no gradient of the patch")
"""Beginnings of what a report says of tokens and boxes that are missing."""
COUNTS = {"embedded": (1, 2, 4, 8, 16, 24, 32, 40, 48), "base": (1, 2, 4, 8, 16, 32, 64, 128, 160, 192)}


def main(chosen: str = "", counts: str = "", pages: int = 2, seed: int = 0) -> None:
    """Print a table for each model."""
    for name, model in models(chosen):
        room = Room(model, open_templates(FIXTURES / "templates")[:1])
        print(f"\n{name}, {pages} pages a row\n")
        print("| private words | tokens | room | certain | false | cause | UTR | false | UTR, known taken out ", end="")
        print("| false | s a page |")
        print("| --- " * 11 + "|")
        for count in [int(each) for each in counts.split(",")] if counts else COUNTS[name]:
            print(row(room, model, count, pages, seed), flush=True)


def forms(pages: int) -> None:
    """Print the table of kinds of updates."""
    model = open_gradient_model(str(FIXTURES / "vt5-finetuned"), "cpu")
    room = Room(model, open_templates(FIXTURES / "templates")[:2])
    print("| what is shared | private tokens | false | cause |\n| --- | --- | --- | --- |")
    for kind, make in kinds().items():
        counts, causes = np.zeros(3, dtype=np.int64), set()
        for page in range(pages):
            case = make(room, page)
            bag = bag_of(model, case)
            counts += counts_of(model, replace(case, filling=None), bag)[ANY_ORDER][0]
            own = [one for one in bag.limits if one.words.startswith(_SAID)]
            causes |= {str(limit.cause) for limit in own}
        right, wanted, named = counts.tolist()
        print(f"| {kind} | {right} of {wanted} | {named - right} | {', '.join(sorted(causes)) or '–'} |", flush=True)


def places(pages: int) -> None:
    """Print a table of kinds of updates for each model with absolute positions."""
    with tempfile.TemporaryDirectory() as folder:
        blind = Path(folder) / "blind"
        blind.mkdir()
        paths = {
            "Donut (embedded)": FIXTURES / "donut",
            "LayoutLMv3 (small, random weights)": save_reader(Path(folder), "v3")[0],
            "LayoutLMv3 that sees no page (192 wide, random weights)": save_model(blind, 192),
        }
        for name, path in paths.items():
            room = Room(open_gradient_model(str(path), "cpu"), FORMS)
            print(f"\n{name}, {pages} pages\n")
            print("| what is shared | tokens in place | in any order | false | cause | s a page |")
            print("| --- " * 6 + "|")
            beside = {kind: make for kind, make in kinds().items() if "frozen" not in kind}
            if room.model.word_encoder() is not None:
                beside |= {kind: _beside(*parts) for kind, parts in FROZEN.items()}
            for kind, make in beside.items():
                print(_places_row(room, kind, make, pages), flush=True)


FROZEN = {
    "tables of positions and coordinates frozen": ("position_embeddings",),
    "layer of patches frozen": ("patch_embed.",),
    "both frozen, adapters alone": ("position_embeddings", "patch_embed."),
}
"""Parts of the names of what a LayoutLMv3's client leaves out."""


def _beside(*parts: str) -> Make:
    def make(room: Room, page: int) -> Case:
        case = room.case(page)
        sent = updates.frozen(updates.adapters(case.seen.gradient, seed=page, up=UP), *parts)
        return replace(case, seen=replace(case.seen, gradient=sent))

    return make


def _places_row(room: Room, kind: str, make: Make, pages: int) -> str:
    placed, counts, causes, seconds = np.zeros(2, dtype=np.int64), np.zeros(3, dtype=np.int64), set(), 0.0
    for page in range(pages):
        case = replace(make(room, page), filling=None)
        began = time.process_time()
        bag = bag_of(room.model, case)
        seconds += time.process_time() - began
        placed += room.counts(case)[TOKENS][0]
        counts += counts_of(room.model, case, bag)[ANY_ORDER][0]
        causes |= {str(limit.cause) for limit in bag.limits if limit.words.startswith(("tokens", *_SAID))}
    right, wanted, named = counts.tolist()
    cells = [kind, "{} of {}".format(*placed), f"{right} of {wanted}", str(named - right)]
    return f"| {' | '.join([*cells, ', '.join(sorted(causes)) or '–', f'{seconds / pages:.1f}'])} |"


def kinds() -> dict[str, Make]:
    """Updates by what is done to them."""

    def of(
        change: Callable[[updates.Update], updates.Update] = lambda given: given, made: Make = Room.case, rank: int = 6
    ) -> Make:
        def make(room: Room, page: int) -> Case:
            case = made(room, page)
            sent = change(updates.adapters(case.seen.gradient, rank=rank, seed=page, up=UP))
            return replace(case, seen=replace(case.seen, gradient=sent))

        return make

    def after_adam(room: Room, page: int) -> Case:
        case = room.case(page)
        sent = updates.later_round(room.model, case.truths, [room.clients.page("training", page)], seed=page)
        return replace(case, seen=replace(case.seen, gradient=sent))

    def first(room: Room, page: int) -> Case:
        case = room.case(page)
        return replace(case, seen=replace(case.seen, gradient=updates.adapters(case.seen.gradient, seed=page)))

    found: dict[str, Make] = {"a later round, B random": of(), "a later round, B after a step of Adam": after_adam}
    found["the first round, B zero"] = first
    found |= {f"adapters of rank {rank}": of(rank=rank) for rank in (1, 2, 4, 16)}
    found |= {f"batch of {batch}": of(made=lambda room, page, batch=batch: room.case(page, batch=batch))
              for batch in (2, 4, 8)}  # fmt: skip
    found["layer of patches frozen"] = of(lambda given: updates.frozen(given, "visual_emb_matcher"))
    found["spatial matcher frozen"] = of(lambda given: updates.frozen(given, "spatial_emb_matcher"))
    found["dropout of 0.1"] = of(made=OTHERS["dropout of 0.1"])
    found |= {name: of(change) for name, change in CHANGES.items()}
    return found | {name: of(made=make) for name, make in all_kinds().items() if name.startswith("control")}


CHANGES: dict[str, Callable[[updates.Update], updates.Update]] = {
    "bfloat16": lambda given: updates.rounded(given, torch.bfloat16),
    "float16": lambda given: updates.rounded(given, torch.float16),
    "int8, a scale for each row": lambda given: updates.integers(given, by_row=True),
    "NF4": updates.nf4,
    "noise of 1e-4 an entry": lambda given: updates.noisy(given, 1e-4),
    "noise of 1e-2 an entry": lambda given: updates.noisy(given, 1e-2),
    "noise of 1 an entry": lambda given: updates.noisy(given, 1.0),
}


def page_of(room: Room, model: Vt5Gradients, words: int, number: int, seed: int) -> Truth:
    """The form with private words in random boxes."""
    rng, form = np.random.default_rng([seed, words, number]), room.templates[0]
    truth = room.clients.page("document", number)
    text = model.text(Sample("What is written here?", "a", form.words, form.boxes))
    lines = np.sort(rng.integers(0, 950, size=-(-words // _LINE)))
    boxes = []
    for word in range(words):
        left, top = int(rng.integers(0, 900)), int(lines[word // _LINE])
        boxes += [[left, top, left + int(rng.integers(20, 100)), top + 12]] * _PIECES
    ids = torch.from_numpy(rng.integers(10, len(model.network.language_backbone.shared.weight), size=len(boxes)))
    placed = torch.tensor(boxes)
    made = dict(text) | {
        "ids": torch.cat([text["ids"][:-1], ids, text["ids"][-1:]]),
        "boxes": torch.cat([text["boxes"][:-1], placed, text["boxes"][-1:]]),
        "places": torch.cat([text["places"][:-1], placed, text["places"][-1:]]),
        "labels": torch.cat([ids[:_PIECES], text["labels"][-1:]]),
    }
    return replace(truth, text=made, values=None)


def row(room: Room, model: Vt5Gradients, words: int, pages: int, seed: int) -> str:
    """One line."""
    tables, weights = model.word_tables(), dict(model.network.named_parameters())
    names, form = tables.summed(), room.placed[0]
    parts, many = InputParts.of(names, weights), np.zeros(7, dtype=np.int64)
    printed = [tables.pieces(word) for word in form.words]
    public = {token for word in printed for token in word} | set(names.pairs[:, 0].tolist())
    rooms, causes, seconds = [], set(), 0.0
    for number in range(pages):
        truth = page_of(room, model, words, number, seed)
        update = updates.adapters(share(model, [truth]), up=UP, seed=number)
        began = time.process_time()
        seen = Observation("page", form, update)
        _, edges, _ = words_of_tables(seen.gradient, LookedUp.of(tables), weights)
        found = inputs_of_span(update, names, weights, edges, tables.rows(form.boxes), printed)
        seconds += time.process_time() - began
        wanted = set(truth.text["ids"].tolist()) - public
        assert found.boxes is not None
        assert found.private is not None
        causes |= {str(limit.cause) for limit in found.private.limits}
        halves = halves_of(update, names.attention, parts.words.shape[1])
        assert halves is not None
        matrix = update["visual_embedding.visual_emb_matcher.layers.0.weight"]
        own, offset = (weights[f"visual_embedding.{each}"] for each in (names.patches, names.patches_offset))
        patches = span_of_patches(matrix.double().numpy(), own.detach(), offset.detach(), noise_of([], matrix, None))
        known = [patches * parts.norm, parts.spatial(found.boxes), parts.words[sorted(public)]]
        rooms.append(room_in(outside_of([*known[::2], np.concatenate([known[1], [parts.offset * parts.norm]])])))
        rows = halves.down.double().numpy()
        bags = [bag_of_words(rows, parts, found.boxes, each) for each in (None, np.concatenate(known))]
        counts = [len(wanted)]
        for named in (set(found.private.present.tolist()), *bags):
            counts += [len(named & wanted), len(named - public - wanted)]
        many += counts
    total, *pairs = many.tolist()
    cells = [str(words), str(total), f"{min(rooms)}–{max(rooms)}"]
    cells += [str(pairs[0]), str(pairs[1]), ", ".join(sorted(causes)) or "–", *map(str, pairs[2:])]
    return f"| {' | '.join([*cells, f'{seconds / pages:.1f}'])} |"


if __name__ == "__main__":
    torch.manual_seed(0)
    given = sys.argv[1:]
    if given[:1] == ["forms"]:
        forms(int(given[1]) if len(given) > 1 else 2)
    elif given[:1] == ["places"]:
        places(int(given[1]) if len(given) > 1 else 5)
    else:
        main(*given[:2], *map(int, given[2:]))
