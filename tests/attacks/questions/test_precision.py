"""Audits in low precision: what it changes is measured and reported, and answers are not mixed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import pfl_audit
from pfl_audit.attacks.questions.engine import Answers, QueryEngine
from pfl_audit.attacks.questions.precision import SAMPLE, difference_of, facts_of, sample_of
from pfl_audit.cli.main import run
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import UsageError
from pfl_audit.models.open import open_model
from pfl_audit.models.protocol import Response
from pfl_audit.progress import Silent
from tests.core.fakes import FakeModel
from tests.fake_gpu import FakeGpu


def test_answers_of_another_precision_or_device_are_asked_anew(tmp_path: Path, red: Corpus) -> None:
    store, model = ResponseStore(tmp_path / "store.sqlite"), FakeModel()
    queries = red.queries[:5]
    for arithmetic in ((), ("cpu", "bf16"), ("cuda", "fp32"), ("cuda", "bf16")):
        engine = QueryEngine(model, store, Silent(), arithmetic=arithmetic)
        engine.ask(queries, "x")
        assert (engine.asked, engine.reused) == (5, 0)
        engine.ask(queries, "x")
        assert (engine.asked, engine.reused) == (5, 5)


def test_the_sample_does_not_depend_on_the_order_of_a_corpus(red: Corpus) -> None:
    turned = replace(red, queries=tuple(reversed(red.queries)))
    assert sample_of(red) == sample_of(turned)
    assert len(sample_of(red)) == min(SAMPLE, len(red.queries))


def test_the_difference_is_counted_over_what_both_answered(red: Corpus) -> None:
    one, two, three = red.queries[:3]
    exact = Answers({one.id: Response("a", 0.5, 1.0, 2), two.id: Response("b", 0.5, 2.0, 2), three.id: Response("c")})
    low = Answers({one.id: Response("a", 0.5, 1.25, 2), two.id: Response("B", 0.5, 1.5, 2)})
    found = difference_of("target", [one, two, three], exact, low)
    assert facts_of("fp32", [found]) == {}
    assert facts_of("bf16", [found]) == {
        "Precision": "bfloat16; against float32 on a sample of the questions: target: 1 of 2 answers equal (50.0 %), "
        "losses differ by at most 0.5 nats a token"
    }


def test_the_report_prints_what_low_precision_changes(
    make_checkpoint: Callable[[int], Path], red: Corpus, tmp_path: Path
) -> None:
    few = replace(red, queries=red.queries[:20])
    given: dict[str, Any] = {"red": few, "checks": ("memorization.provider_name",), "store": tmp_path / "store.sqlite"}
    low = pfl_audit.audit(make_checkpoint(0), precision="bf16", batch_tokens=4000, out=tmp_path / "low", **given)
    (said,) = [data.facts["Precision"] for data in low.datasets]
    assert said.startswith("bfloat16; against float32 on a sample of the questions: target: ")
    assert said.endswith(" nats a token")
    pfl_audit.render(low, tmp_path / "low")
    assert said in (tmp_path / "low/report.html").read_text()
    assert said in (tmp_path / "low/results.json").read_text()

    engine = QueryEngine(open_model(str(make_checkpoint(0))), ResponseStore(tmp_path / "store.sqlite"), Silent())
    engine.ask(few.queries, "in float32")
    assert (engine.asked, engine.reused) == (0, 20), "the sample is kept as answers in float32 are"


@pytest.mark.slow
def test_memory_that_runs_out_is_said_and_changes_no_answer(
    make_checkpoint: Callable[[int], Path], red: Corpus, tmp_path: Path
) -> None:
    class Told(Silent):
        said: list[str] = []  # noqa: RUF012

        def say(self, text: str) -> None:
            self.said.append(text)

    queries = red.queries[:24]
    true = open_model(str(make_checkpoint(0))).respond(queries)
    with FakeGpu() as gpu:
        model = open_model(str(make_checkpoint(0)), device="cuda")
        gpu.largest = 0
        model.respond(queries[:1])
        gpu.memory = 4 * gpu.largest
        engine = QueryEngine(model, ResponseStore(tmp_path / "store.sqlite"), Told(), arithmetic=("cuda", "fp32"))
        answers = engine.ask(queries, "x")
    assert gpu.exhausted > 0
    assert engine.batch_tokens is not None
    assert f"memory ran out: batches of at most {engine.batch_tokens:,} tokens from here on" in Told.said
    assert [answers[query].answer for query in queries] == [response.answer for response in true]
    assert [answers[query].loss for query in queries] == pytest.approx([one.loss for one in true], rel=1e-4)
    assert not torch.cuda.is_initialized()


def test_inversion_is_computed_in_float32_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("invert", "defend"):
        assert run([command, "--precision", "bf16", "--out", str(tmp_path / command), "-q"]) == 3
        said = capsys.readouterr().err
        assert "gradients are computed and inverted in float32 alone, not in bf16. Leave --precision out." in said


@pytest.mark.parametrize("given", [{"precision": "fp16"}, {"batch_tokens": 100}])
def test_answers_that_are_not_computed_here_take_no_precision(given: Any, red: Corpus, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="are not computed here"):
        pfl_audit.audit(None, red=red, answers=tmp_path / "answers.jsonl", out=tmp_path / "run", **given)
