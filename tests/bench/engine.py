"""The query engine against the plain way: python -m tests.bench.engine.

The plain way answers one query at a time and runs the model twice for it, once to generate and once for
the loss, each time with the page encoded anew. Both run on the same machine in the same run; the
answers must be the same and the losses within 1e-4.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path

import torch

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.document import Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.models.protocol import Response
from pfl_audit.models.vt5.checkpoint import save_vt5
from pfl_audit.models.vt5.inputs import collate
from pfl_audit.models.vt5.model import Vt5Model
from pfl_audit.progress import Silent
from pfl_audit.training.scratch import new_vt5

FIXTURES = Path(str(resources.files("pfl_audit.fixtures")))


def main() -> None:
    """Compare both ways on the fixture model and on a base-size model with random weights."""
    red = open_corpus(FIXTURES / "red", "red")
    compare("fixture model", FIXTURES / "vt5-finetuned", red.queries[:400], rounds=3, wanted=4.0)
    pages: dict[str, list[Query]] = {}
    for query in red.queries:
        pages.setdefault(query.document.id, []).append(query)
    three_a_page = [query for asked in pages.values() if len(asked) >= 3 for query in asked[:3]][:24]
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        save_vt5(new_vt5("base", 1000, seed=0), FIXTURES / "vt5-finetuned", base, extra={})
        compare("base size, random weights", base, three_a_page, rounds=1, wanted=2.0)


def compare(name: str, folder: Path, queries: Sequence[Query], *, rounds: int, wanted: float) -> None:
    """Time both ways in turn, after one short run of each, and print the median ratio."""
    one_at_a_time(Vt5Model(folder), queries[:2])
    by_engine(Vt5Model(folder), queries[:2])
    ratios = []
    for number in range(rounds):
        slow, plain = _timed(one_at_a_time, folder, queries)
        fast, engine = _timed(by_engine, folder, queries)
        ratios.append(slow / fast)
        rates = f"one at a time {len(queries) / slow:.2f}/s, engine {len(queries) / fast:.2f}/s"
        print(f"{name}, round {number + 1}: {len(queries)} queries, {rates}, {ratios[-1]:.2f} times")
        same = sum(a.answer == b.answer for a, b in zip(plain, engine, strict=True))
        apart = max(abs((a.loss or 0.0) - (b.loss or 0.0)) for a, b in zip(plain, engine, strict=True))
        print(f"  {same} of {len(plain)} answers the same, losses within {apart:.1e}")
    print(f"{name}: {sorted(ratios)[rounds // 2]:.2f} times the queries a second (wanted: {wanted})")


def _timed(
    way: Callable[[Vt5Model, Sequence[Query]], list[Response]], folder: Path, queries: Sequence[Query]
) -> tuple[float, list[Response]]:
    model = Vt5Model(folder)
    begun = time.perf_counter()
    responses = way(model, queries)
    return time.perf_counter() - begun, responses


@torch.inference_mode()
def one_at_a_time(model: Vt5Model, queries: Sequence[Query]) -> list[Response]:
    """Each query by itself, the model run twice, the page encoded each time."""
    network, inputs = model.network, model.inputs
    responses = []
    for query in queries:
        emitted = network.language_backbone.generate(
            **_embed(model, query),
            do_sample=False,
            num_beams=1,
            max_length=network.config.max_answer_tokens,
            decoder_start_token_id=0,
            eos_token_id=1,
            pad_token_id=0,
        )
        labels = inputs.answer(query.answers[0])[None]
        loss = network.language_backbone(**_embed(model, query), labels=labels).loss
        responses.append(Response(inputs.tokenizer.decode(emitted[0].tolist()), None, float(loss)))
    return responses


def _embed(model: Vt5Model, query: Query) -> dict[str, torch.Tensor]:
    features = model.network.visual_embedding.encode(model.inputs.pixels(query.document)[None])
    embeddings, mask = model.network.embed(collate([model.inputs.text(query)]), features)
    return {"inputs_embeds": embeddings, "attention_mask": mask}


def by_engine(model: Vt5Model, queries: Sequence[Query]) -> list[Response]:
    """The same queries through the engine, with an empty store."""
    with tempfile.TemporaryDirectory() as scratch, ResponseStore(Path(scratch) / "store.sqlite") as store:
        answers = QueryEngine(model, store, Silent()).ask(queries, "bench")
        return [answers[query] for query in queries]


if __name__ == "__main__":
    main()
