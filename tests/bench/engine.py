"""The query engine against a fair loop and a plain one: OMP_NUM_THREADS=1 python -m tests.bench.engine [small|base].

The fair loop is what a competent user of transformers writes: questions sorted by length and asked in padded batches, a
page's pixels encoded once, the encoder's output used for ``generate`` and for the loss. The plain loop answers one
question at a time and runs the model twice for it, once to generate and once for the loss, each time with the page
encoded anew. All run on the same machine in the same run; the answers must be the same and the losses within 1e-4.
Seconds are those of the processor, which other work on the machine hardly changes; with more than one thread, those
that have passed. With one thread the rate of the engine is printed as a share of the processor's rate of products of
matrices, measured around it: the fewest operations that the answers need (``products``), so that work that is saved
counts, over the time.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional
from transformers.modeling_outputs import BaseModelOutput

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.protocol import Response
from pfl_audit.models.samples import IGNORED
from pfl_audit.models.vt5.checkpoint import save_vt5
from pfl_audit.models.vt5.inputs import collate, collate_labels
from pfl_audit.models.vt5.model import Vt5Model
from pfl_audit.models.vt5.tokenizer import EOS
from pfl_audit.progress import Silent
from pfl_audit.training.scratch import new_vt5
from tests.bench.products import core_rate, page_operations, question_operations

Steps = dict[str, int]
"""Query id to the tokens that its answer took, with the end."""
FIXTURES = Path(str(resources.files("pfl_audit.fixtures")))
BATCH = 32


def main(size: str | None = None) -> None:
    """Compare the ways on the fixture model and on a base-size model with random weights, or on one of them."""
    red = open_corpus(FIXTURES / "red", "red")
    if size != "base":
        model = FIXTURES / "vt5-finetuned"
        compare("fixture model", model, red.queries[:400], rounds=3, wanted=(1.3, 4.0), share=None)
    if size == "small":
        return
    pages: dict[str, list[Query]] = {}
    for query in red.queries:
        pages.setdefault(query.document.id, []).append(query)
    three_a_page = [query for asked in pages.values() if len(asked) >= 3 for query in asked[:3]][:24]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        save_vt5(new_vt5("base", 1000, seed=0), FIXTURES / "vt5-finetuned", base, extra={})
        compare("base size, random weights", base, three_a_page, rounds=2, wanted=(1.15, 2.0), share=0.8)


Way = Callable[[Vt5Model, Sequence[Query]], list[Response]]


def compare(
    name: str,
    folder: Path,
    queries: Sequence[Query],
    *,
    rounds: int,
    wanted: tuple[float, float],
    share: float | None,
) -> None:
    """Time all ways in turn, after one short run of each, and print the median ratios.

    Args:
        wanted: Least times the fair and the plain loop.
        share: Least share of the processor's rate of products; None where none is wanted.
    """
    steps: Steps = {}
    ways: dict[str, Way] = {"fair loop": partial(fair, steps=steps), "plain loop": one_at_a_time}
    for way in (by_engine, *ways.values()):
        way(Vt5Model(folder), queries[:2])
    ratios: dict[str, list[float]] = {way: [] for way in ways}
    shares: list[float] = []
    for number in range(rounds):
        before = core_rate()
        fast, engine = _timed(by_engine, folder, queries)
        rate = (before + core_rate()) / 2
        for label, way in ways.items():
            slow, others = _timed(way, folder, queries)
            ratios[label].append(slow / fast)
            same = sum(a.answer == b.answer for a, b in zip(others, engine, strict=True))
            apart = max(abs((a.loss or 0.0) - (b.loss or 0.0)) for a, b in zip(others, engine, strict=True))
            print(
                f"{name}, round {number + 1}: {len(queries)} queries, {label} {len(queries) / slow:.2f}/s, engine "
                f"{len(queries) / fast:.2f}/s, {ratios[label][-1]:.2f} times; {same} answers the same, losses within "
                f"{apart:.1e}",
                flush=True,
            )
        if torch.get_num_threads() == 1:
            operations = _operations(Vt5Model(folder), queries, steps)
            shares.append(operations / fast / rate)
            print(
                f"{name}, round {number + 1}: {operations / len(queries) / 1e9:.2f} GFLOP a question at the fewest, "
                f"{operations / fast / 1e9:.1f} a second; products of matrices {rate / 1e9:.1f}: {shares[-1]:.0%}",
                flush=True,
            )
    for (label, found), least in zip(ratios.items(), wanted, strict=True):
        print(f"{name}: {statistics.median(found):.2f} times the queries a second of the {label} (wanted: {least})")
    if shares:
        least_share = "none" if share is None else f"{share:.0%}"
        print(f"{name}: {statistics.median(shares):.0%} of the rate of products (wanted: {least_share})")


def _operations(model: Vt5Model, queries: Sequence[Query], steps: Steps) -> int:
    """The fewest that the answers and losses need; each page's picture once."""
    config, inputs = model.network.config, model.inputs
    pages = len({query.document.id for query in queries})
    return pages * page_operations(config) + sum(
        question_operations(
            config, len(inputs.text(query).ids), (steps[query.id], len(inputs.answer(query.answers[0])))
        )
        for query in queries
    )


def _timed(way: Way, folder: Path, queries: Sequence[Query]) -> tuple[float, list[Response]]:
    model = Vt5Model(folder)
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    begun = clock()
    responses = way(model, queries)
    return clock() - begun, responses


@torch.inference_mode()
def fair(model: Vt5Model, queries: Sequence[Query], *, steps: Steps | None = None) -> list[Response]:
    """Sorted and padded batches, each page's pixels and each batch's encoder computed once.

    Args:
        steps: Receives the tokens that each answer took.
    """
    backbone, inputs = model.network.language_backbone, model.inputs
    order = sorted(range(len(queries)), key=lambda at: len(inputs.text(queries[at]).ids))
    features: dict[str, Tensor] = {}
    found: dict[int, Response] = {}
    for begin in range(0, len(order), BATCH):
        rows = order[begin : begin + BATCH]
        some = [queries[at] for at in rows]
        for document in {query.document.id: query.document for query in some}.values():
            if document.id not in features:
                features[document.id] = model.network.visual_embedding.encode(inputs.pixels(document)[None])[0]
        pages = torch.stack([features[query.document.id] for query in some])
        embeddings, mask = model.network.embed(collate([inputs.text(query) for query in some]), pages)
        encoded = backbone.encoder(inputs_embeds=embeddings, attention_mask=mask)
        emitted = _generate(model, encoder_outputs=encoded, attention_mask=mask)
        labels = collate_labels([inputs.answer(query.answers[0]) for query in some])
        state = BaseModelOutput(last_hidden_state=encoded.last_hidden_state)
        logits = backbone(encoder_outputs=state, attention_mask=mask, labels=labels).logits
        losses = functional.cross_entropy(logits.mT, labels, ignore_index=IGNORED, reduction="none").sum(dim=1)
        means = losses / (labels != IGNORED).sum(dim=1)
        for at, tokens, loss in zip(rows, emitted.tolist(), means.tolist(), strict=True):
            found[at] = Response(inputs.tokenizer.decode(tokens), None, loss)
            if steps is not None:
                steps[queries[at].id] = tokens.index(EOS) if EOS in tokens else len(tokens) - 1
    return [found[at] for at in range(len(queries))]


@torch.inference_mode()
def one_at_a_time(model: Vt5Model, queries: Sequence[Query]) -> list[Response]:
    """Each query by itself, the model run twice, the page encoded each time."""
    network, inputs = model.network, model.inputs
    responses = []
    for query in queries:
        emitted = _generate(model, **_embed(model, query))
        labels = inputs.answer(query.answers[0])[None]
        loss = network.language_backbone(**_embed(model, query), labels=labels).loss
        responses.append(Response(inputs.tokenizer.decode(emitted[0].tolist()), None, float(loss)))
    return responses


def _generate(model: Vt5Model, **inputs: object) -> Tensor:
    return model.network.language_backbone.generate(
        **inputs,
        do_sample=False,
        num_beams=1,
        max_length=model.network.config.max_answer_tokens,
        decoder_start_token_id=0,
        eos_token_id=1,
        pad_token_id=0,
    )


def _embed(model: Vt5Model, query: Query) -> dict[str, Tensor]:
    features = model.network.visual_embedding.encode(model.inputs.pixels(query.document)[None])
    embeddings, mask = model.network.embed(collate([model.inputs.text(query)]), features)
    return {"inputs_embeds": embeddings, "attention_mask": mask}


def by_engine(model: Vt5Model, queries: Sequence[Query]) -> list[Response]:
    """The same queries through the engine, with an empty store."""
    with tempfile.TemporaryDirectory() as scratch, ResponseStore(Path(scratch) / "store.sqlite") as store:
        answers = QueryEngine(model, store, Silent()).ask(queries, "bench")
        return [answers[query] for query in queries]


if __name__ == "__main__":
    main(*sys.argv[1:2])
