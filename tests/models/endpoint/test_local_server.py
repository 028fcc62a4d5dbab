"""A real server, ``transformers serve``, with a model of ours."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli.main import run
from pfl_audit.documents.corpus import Corpus
from pfl_audit.models.endpoint.model import EndpointModel, Request
from pfl_audit.models.protocol import Capability
from tests.models.endpoint.local import LocalServer, save_tiny_llava

pytestmark = pytest.mark.slow

for package in ("fastapi", "uvicorn", "openai"):
    pytest.importorskip(package, reason=f"transformers serve needs {package}")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalServer]:
    folder = tmp_path_factory.mktemp("served")
    save_tiny_llava(folder / "tiny")
    one = LocalServer(folder)
    yield one
    one.kill()


def generated(folder: Path, prompt: Any, most: int) -> tuple[str, int]:
    """The model's own answer, and the tokens of the prompt."""
    import base64
    import io

    from PIL import Image
    from transformers import AutoModelForImageTextToText, AutoProcessor

    processor = AutoProcessor.from_pretrained(folder)
    model = AutoModelForImageTextToText.from_pretrained(folder)
    picture = prompt.content()[0]["image_url"]["url"].partition(",")[2]
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    content = [{"type": "image", "image": image}, {"type": "text", "text": prompt.text}]
    inputs = processor.apply_chat_template(
        [{"role": "user", "content": content}],
        add_generation_prompt=True,
        tokenize=True,
        return_dict=True,
        return_tensors="pt",
    )
    length = inputs["input_ids"].shape[1]
    out = model.generate(**inputs, max_new_tokens=most, do_sample=False)
    return processor.tokenizer.decode(out[0, length:], skip_special_tokens=True), length


def test_answers_and_usage_are_those_of_the_model_itself(
    server: LocalServer, red: Corpus, opened: Callable[..., EndpointModel]
) -> None:
    model = opened(server.url, endpoint_answer_tokens=6, endpoint_timeout=60)
    before = model.work()["endpoint_tokens_sent"]
    queries = red.queries[:3]
    answers = model.respond(queries)
    expected = [generated(server.folder / "tiny", Request("tiny", side=64).prompt(query), 6) for query in queries]
    assert [response.answer for response in answers] == [said.strip() for said, _ in expected]
    assert any(response.answer for response in answers)
    assert model.work()["endpoint_tokens_sent"] - before == sum(length for _, length in expected)
    assert model.capabilities == {Capability.ANSWER, Capability.LIVE}  # transformers returns no log-probabilities


@pytest.mark.parametrize("command", ["mia", "memorize"])
def test_commands_audit_a_served_model(command: str, server: LocalServer, corpus_folder: Path, tmp_path: Path) -> None:
    code = run(
        [
            command, "--endpoint", server.url, "--endpoint-model", "tiny", "--red", str(corpus_folder), "--yes",
            "--endpoint-answer-tokens", "4", "--endpoint-side", "64", "--out", str(tmp_path / "run"), "--quiet",
            *(["--seeds", "1", "--s", "0"] if command == "mia" else []),
        ]
    )  # fmt: skip
    assert code in (0, 3)
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert results["target"]["family"] == "endpoint"
    assert [check["id"] for check in results["checks"] if check["status"] == "ran"]
    facts = json.loads((tmp_path / "run/run.json").read_text())
    assert facts["endpoint_requests"] == facts["queries_asked"] + 1
