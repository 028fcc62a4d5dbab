"""How many words adapters give away: python -m tests.bench.adapter_words [MODEL [COUNTS [PAGES [SEED]]]].

The embedded VT5 (192 wide) and one of base size (768 wide) with random weights. A page is the first embedded form with
1, 2, 4, ... private words of two random pieces of the whole vocabulary, in lines of random boxes. The client sends the
gradient of adapters of rank 6 on q and v in a later round (their halves B are random), the spatial embedding and the
layer that patches are given to. Tokens are those of the private words and of the question that neither form nor prompt
have. UTR has the same rows and boxes; in the last two columns what this attack takes out is taken out for it as well.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from pfl_audit.attacks.inversion.adapters.recovery import span_of_patches
from pfl_audit.attacks.inversion.adapters.rows import halves_of
from pfl_audit.attacks.inversion.analytic.noise import noise_of
from pfl_audit.attacks.inversion.clients import share
from pfl_audit.attacks.inversion.context import Observation, Truth
from pfl_audit.attacks.inversion.input_span.inputs import InputParts
from pfl_audit.attacks.inversion.input_span.recovery import inputs_of_span
from pfl_audit.attacks.inversion.table_words import LookedUp, words_of_tables
from pfl_audit.attacks.inversion.template.synthetic import open_templates
from pfl_audit.models.gradient_protocol import Sample
from pfl_audit.models.open import open_gradient_model
from pfl_audit.models.vt5.checkpoint import save_vt5
from pfl_audit.models.vt5.gradients import Vt5Gradients
from pfl_audit.training.scratch import new_vt5
from tests.attacks.inversion import updates
from tests.attacks.inversion.room import Room
from tests.bench.inversion_updates import FIXTURES
from tests.bench.utr import bag_of_words

_PIECES = 2
_LINE = 8
"""Words of a line."""
_UP = 0.02
"""Standard deviation of the halves B."""
COUNTS = {"embedded": (1, 2, 4, 8, 16, 24, 32, 40, 48), "base": (1, 2, 4, 8, 16, 32, 64, 128, 160, 192)}


def main(chosen: str = "", counts: str = "", pages: int = 2, seed: int = 0) -> None:
    """Print a table for each model."""
    with tempfile.TemporaryDirectory() as folder:
        models = {"embedded": FIXTURES / "vt5-finetuned", "base": Path(folder) / "base"}
        for name, path in models.items():
            if chosen not in name:
                continue
            if name == "base":
                save_vt5(new_vt5("base", 1000, seed=0), models["embedded"], path, extra={})
            model = open_gradient_model(str(path), "cpu")
            assert isinstance(model, Vt5Gradients)
            room = Room(model, open_templates(FIXTURES / "templates")[:1])
            print(f"\n{name}, {pages} pages a row\n")
            print(
                "| private words | tokens | room | certain | false | cause | UTR | false | UTR, known taken out ",
                end="",
            )
            print("| false | s a page |")
            print("| --- " * 11 + "|")
            for count in [int(each) for each in counts.split(",")] if counts else COUNTS[name]:
                print(row(room, model, count, pages, seed), flush=True)


def page_of(room: Room, model: Vt5Gradients, words: int, number: int, seed: int) -> Truth:
    """The form with private words in random boxes."""
    rng, form = np.random.default_rng([seed, words, number]), room.clients._templates[0]
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
        update = updates.adapters(share(model, [truth]), up=_UP, seed=number)
        began = time.process_time()
        seen = Observation("page", form, update)
        _, edges, _ = words_of_tables(seen.gradient, LookedUp.of(tables), weights)
        found = inputs_of_span(update, names, weights, edges, tables.rows(form.boxes), printed)
        seconds += time.process_time() - began
        wanted = set(truth.text["ids"].tolist()) - public
        assert found.boxes is not None
        assert found.private is not None
        causes |= {str(limit.cause) for limit in found.private.limits}
        rooms.append(found.private.room)
        halves = halves_of(update, names.attention, parts.words.shape[1])
        assert halves is not None
        matrix = update["visual_embedding.visual_emb_matcher.layers.0.weight"]
        own, offset = (weights[f"visual_embedding.{each}"] for each in (names.patches, names.patches_offset))
        patches = span_of_patches(matrix.double().numpy(), own.detach(), offset.detach(), noise_of([], matrix, None))
        known = [patches * parts.norm, parts.spatial(found.boxes), parts.words[sorted(public)]]
        rows = halves.down.double().numpy()
        bags = [bag_of_words(rows, parts, found.boxes, each) for each in (None, np.concatenate(known))]
        counts = [len(wanted)]
        for named in (set(found.private.tokens.tolist()), *bags):
            counts += [len(named & wanted), len(named - public - wanted)]
        many += counts
    total, *pairs = many.tolist()
    cells = [str(words), str(total), f"{min(rooms)}–{max(rooms)}"]
    cells += [str(pairs[0]), str(pairs[1]), ", ".join(sorted(causes)) or "–", *map(str, pairs[2:])]
    return f"| {' | '.join([*cells, f'{seconds / pages:.1f}'])} |"


if __name__ == "__main__":
    torch.manual_seed(0)
    given = sys.argv[1:]
    main(*given[:2], *map(int, given[2:]))
