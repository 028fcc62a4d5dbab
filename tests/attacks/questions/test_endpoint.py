"""``--endpoint``: from the command line to the report."""

import io
import json
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.api import audit
from pfl_audit.attacks.membership.attack import ATTACK as MEMBERSHIP
from pfl_audit.attacks.memorization.attack import ATTACK as MEMORIZATION
from pfl_audit.attacks.questions.inputs import EndpointInputs
from pfl_audit.cli.main import run
from pfl_audit.core.attack import planned_questions
from pfl_audit.core.results import Results
from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import EndpointError, UsageError
from tests.models.endpoint.server import Said, Server, completion, plain, serving

SECRET = "sk-very-secret-key-0123456789"
Mia = Callable[..., Results]
EVERY = ("membership",)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(lambda _, body: plain(body)) as one:
        yield one


@pytest.fixture
def mia(corpus_folder: Path, tmp_path: Path) -> Mia:
    def mia_(url: str, checks: tuple[str, ...] = ("membership.azk",), **more: object) -> Results:
        given: dict[str, Any] = {"endpoint_model": "tiny", "endpoint_side": 64, "yes": True, **more}
        settings = {"membership": {"seeds": 1, "s": (0,)}}
        return audit(
            None, checks=checks, settings=settings, out=tmp_path / "run", red=corpus_folder, endpoint=url,
            **given,
        )  # fmt: skip

    return mia_


def test_an_audit_names_the_host_and_what_was_sent(server: Server, mia: Mia, tmp_path: Path) -> None:
    results = mia(server.url, EVERY)
    notes = " ".join(results.target.notes)
    host = server.url.removeprefix("http://").removesuffix("/v1")
    assert (results.target.family, results.target.path) == ("endpoint", f"tiny at {host}")
    assert f"the host {host}" in notes
    assert "the picture of the page" in notes
    ran = {check.id: check for check in results.checks}
    assert ran["membership.azk-g4"].status == "ran"
    assert ran["membership.likelihood-ratio"].reason == (
        "needs loss, pre-trained model (--pretrained); the audit has answer, live"
    )
    facts = json.loads((tmp_path / "run/run.json").read_text())
    assert facts["endpoint_requests"] == len(server.bodies) == facts["queries_asked"] + 1
    assert facts["endpoint_tokens_sent"] > 0


@pytest.mark.slow
def test_a_prompt_template_is_what_is_sent(server: Server, mia: Mia) -> None:
    results = mia(server.url, prompt="Read: {question} Briefly.")
    texts = [part["text"] for body in server.bodies for part in body["messages"][0]["content"] if "text" in part]
    assert all(text.startswith("Read: ") and text.endswith(" Briefly.") for text in texts)
    assert len(texts) == len(server.bodies)
    assert "prompt: Read: {question} Briefly." in results.target.notes


@pytest.mark.slow
def test_confidences_open_the_checks_that_need_no_loss(mia: Mia) -> None:
    with serving(lambda *_: completion("Acme", [math.log(0.5)])) as server:
        results = mia(server.url, EVERY)
    assert any("has answer, confidence, live" in (check.reason or "") for check in results.checks)


@pytest.mark.slow
def test_what_is_stored_needs_neither_network_nor_consent(server: Server, mia: Mia, tmp_path: Path) -> None:
    first = mia(server.url)
    asked = len(server.bodies)
    (tmp_path / "run/results.json").unlink()
    (tmp_path / "run/run.json").unlink()
    again = mia(server.url, yes=False)  # there is no terminal here
    assert len(server.bodies) == asked
    assert again.checks == first.checks


@pytest.mark.parametrize("wrong", [{"answers": "x.jsonl"}, {"endpoint_model": None}, {"endpoint_max_cost": 1.0}])
def test_inputs_that_contradict_each_other_send_nothing(wrong: dict[str, Any], server: Server, mia: Mia) -> None:
    with pytest.raises(UsageError):
        mia(server.url, **wrong)
    assert not server.bodies


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "sent"), [("y\n", True), ("YES\n", True), ("n\n", False), ("\n", False), ("", False)]
)
def test_a_terminal_is_asked_with_the_estimate_before_the_first_request(
    answer: str, sent: bool, server: Server, mia: Mia, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    monkeypatch.setattr(sys, "stderr", screen)
    if sent:
        mia(server.url, yes=False, endpoint_price_in=3, endpoint_price_out=12)
    else:
        with pytest.raises(UsageError, match="nothing was sent"):
            mia(server.url, yes=False, endpoint_price_in=3, endpoint_price_out=12)
    assert bool(server.bodies) == sent
    assert screen.getvalue().count("[y/N]") == 1
    for part in ("tiny at 127.0.0.1", "Estimate: at most ", "tokens sent", ", cost 0.", "Ceiling: "):
        assert part in screen.getvalue()


def test_without_a_terminal_and_without_yes_the_command_is_refused(
    server: Server, corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["mia", "--endpoint", server.url, "--endpoint-model", "tiny", "--red", str(corpus_folder)]
    assert run([*arguments, "--out", str(tmp_path / "run")]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("Give --yes to send it.")
    assert not server.bodies


def test_the_key_is_in_the_header_and_nowhere_else(
    corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENDOR_KEY", SECRET)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    body = json.dumps({"error": {"code": "invalid_api_key", "message": f"wrong key {SECRET}"}}).encode()

    def act(number: int, asked: dict[str, Any]) -> Said:
        return plain(asked) if number < 10 else Said(body, 401)

    out = tmp_path / "run"
    with serving(act) as server:
        arguments = ["memorize", "--endpoint", server.url, "--endpoint-model", "tiny", "--red", str(corpus_folder)]
        given = ["--endpoint-key-env", "VENDOR_KEY", "--yes", "--endpoint-side", "64", "--out", str(out)]
        assert run([*arguments, *given]) == 2
    assert {headers["authorization"] for headers in server.headers} == {f"Bearer {SECRET}"}
    said = capsys.readouterr()
    assert "Check the key" in said.err
    assert SECRET not in said.err + said.out
    files = [path for path in out.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]


@pytest.mark.slow
def test_a_failure_ends_the_audit_and_the_same_command_goes_on(server: Server, mia: Mia, tmp_path: Path) -> None:
    with serving(lambda number, body: plain(body) if number <= 30 else Said(b"", 403)) as broken:
        with pytest.raises(EndpointError):
            mia(broken.url)
        port = int(broken.url.split(":")[2].removesuffix("/v1"))
    assert not (tmp_path / "run/results.json").exists()
    assert json.loads((tmp_path / "run/run.json").read_text())["status"] == "error"
    with serving(lambda _, body: plain(body), port) as mended:
        results = mia(mended.url)
        facts = json.loads((tmp_path / "run/run.json").read_text())
    assert results.provenance.resumed
    assert facts["queries_asked"] == len(mended.bodies)
    questions = [str(body["messages"]) for body in broken.bodies[:30]]
    assert not {str(body["messages"]) for body in mended.bodies} & set(questions)


@pytest.mark.slow
def test_the_plan_covers_what_the_attacks_ask(server: Server, mia: Mia, red: Corpus) -> None:
    mia(server.url, EVERY)
    planned = planned_questions([MEMBERSHIP, MEMORIZATION], {"membership.azk"}, red)
    assert len(server.bodies) - 1 <= planned <= 2 * len(server.bodies)
    keys = {"memorization.provider_name", "membership.azk"}
    assert planned_questions([MEMBERSHIP, MEMORIZATION], keys, red) == planned  # they share the scrubbed pages
    assert planned_questions([MEMORIZATION], {"membership.azk"}, red) == 0
    dropout = {"membership": MEMBERSHIP.Settings(losses="dropout")}
    assert planned_questions([MEMBERSHIP], {"membership.azk"}, red, dropout) == planned  # takes no loss


def test_every_input_is_an_option_with_a_description() -> None:
    for name, info in EndpointInputs.model_fields.items():
        assert info.description, name
