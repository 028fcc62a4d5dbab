"""Document canaries from the command that plants them to their verification."""

import json
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pfl_audit.attacks.canaries.run import _sentence
from pfl_audit.cli.main import run
from pfl_audit.documents.document import Query
from pfl_audit.documents.synthetic.canaries import KEY, draw_canaries
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.protocol import DocumentModel
from pfl_audit.privacy.accounting import privacy_spent
from pfl_audit.privacy.canary_coins import RECORD as CANARIES
from pfl_audit.privacy.canary_coins import Manifest
from pfl_audit.privacy.document_canaries import bound_epsilon, smallest_epsilon
from pfl_audit.privacy.guarantee import PrivacyGuarantee
from pfl_audit.privacy.lower_bounds import Guesses
from pfl_audit.privacy.sampling import Sampling
from pfl_audit.progress import Progress, Silent
from pfl_audit.training import canaries, verify
from pfl_audit.training.canaries import CanarySettings
from pfl_audit.training.federated.run import KEY_FILE
from pfl_audit.training.records import RECORD, private_path
from pfl_audit.training.run import run_training
from pfl_audit.training.settings import TrainSettings
from pfl_audit.training.verify import Expected, Verified, canary_losses, measure_canaries, read_coins, verify_records
from tests.prepared import prepared
from tests.privacy.test_guarantee import HONEST
from tests.training.federated.conftest import PRIVATE, QUICK, Federate
from tests.training.federated.test_refusals import Cut2

START = Path(__file__).parents[3] / "fixtures/vt5-pretrained"
ASKED = CanarySettings(40, 40, "verifier 7")
ONE = replace(QUICK, rounds=1)
BUDGETED = replace(PRIVATE, noise_seed=None)
GROUPS = replace(BUDGETED, sampling="fixed-size", providers_per_round=1, minimum_providers=2, public_providers=None)


def status_of(lines: list[Verified], name: str) -> str:
    return next(line.status for line in lines if line.name == name)


def rewrite(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.fixture(scope="module")
def memorized(corpus_folder: Path) -> tuple[Path, Manifest]:
    """A small model that was trained without privacy until it knows its canaries: the positive control."""

    def train(folder: Path) -> None:
        settings = TrainSettings(steps=50, batch_size=8, learning_rate=1e-3, validate_every=1000, validation_queries=2)
        run = Federate(corpus_folder, START, folder).run("model", "central", canaries=ASKED, providers_share=0.1)
        with pytest.MonkeyPatch.context() as patch:  # the tests of chance have one outcome
            drawn = Random(0)
            patch.setattr(secrets, "token_bytes", drawn.randbytes)
            patch.setattr(secrets, "token_hex", lambda size: drawn.randbytes(size).hex())
            run_training(run, settings, Silent())

    model = prepared("memorized-canaries", train) / "model"
    coins, manifest = read_coins(model, Expected(nonce="verifier 7"))
    assert coins.status == "verified"
    assert manifest is not None
    return model, manifest


@pytest.fixture(scope="module", autouse=True)
def _computed_once() -> Iterator[None]:
    """The losses of a model's canaries, which tests with other claims and records ask for again."""
    known: dict[object, np.ndarray] = {}

    def once(model: DocumentModel, queries: list[Query], progress: Progress) -> np.ndarray:
        key = (model.fingerprint, tuple(query.answers for query in queries))
        if key not in known:
            known[key] = canary_losses(model, queries, progress)
        return known[key].copy()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verify, "canary_losses", once)
        yield


def test_a_checkpoint_that_names_very_many_canaries_has_no_page_drawn(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="100,001 canaries are more than the 100,000 whose pages are drawn"):
        draw_canaries(range(100_001), "ab" * 32, tmp_path, Silent())


def test_pages_depend_on_salt_and_number_alone_and_lack_the_value(tmp_path: Path) -> None:
    salt = "ab" * 32
    every = draw_canaries(range(4), salt, tmp_path / "a", Silent())
    one = draw_canaries([2], salt, tmp_path / "b", Silent(), (0, 1, 5))[0]
    assert one.document.digest == every[2].document.digest
    assert (one.answers, one.key, one.document.client) == (every[2].answers, KEY, 5)
    other, alone = (draw_canaries([2], "cd" * 32, tmp_path / name, Silent())[0] for name in "ac")
    assert other.answers != one.answers
    assert other.document.digest == alone.document.digest  # beside the pages of another checkpoint
    assert len({query.document.provider for query in every}) == 4
    for query in every:
        assert query.answers[0] not in "".join(query.document.words).lower()


@pytest.mark.slow
def test_a_model_that_memorized_its_canaries_is_found(memorized: tuple[Path, Manifest], tmp_path: Path) -> None:
    line, bounds = measure_canaries(*memorized, None, None, "cpu", tmp_path, Silent())
    assert line.status == "measured"
    assert bounds.guesses.correct >= 32  # of fair coins, with a probability of 1e-4
    assert bounds.epsilon > 0.5
    forged = PrivacyGuarantee.model_validate(HONEST | {"epsilon": 0.2})
    line, bounds = measure_canaries(*memorized, forged, None, "cpu", tmp_path, Silent())
    assert line.status == "contradicted"
    assert "guaranteed epsilon at most 0.2; measured epsilon at least" in line.text


@pytest.mark.slow
def test_a_model_that_saw_no_canary_gives_nothing_away(memorized: tuple[Path, Manifest], tmp_path: Path) -> None:
    _, bounds = measure_canaries(START, memorized[1], None, None, "cpu", tmp_path, Silent())
    assert bounds.guesses.correct < 32
    _, bounds = measure_canaries(START, memorized[1], None, START, "cpu", tmp_path, Silent())
    assert bounds.guesses.correct < 32  # all scores are 0


@pytest.mark.slow
def test_the_audit_has_a_finding_and_the_report_both_epsilons(
    memorized: tuple[Path, Manifest], corpus_folder: Path, tmp_path: Path
) -> None:
    forged, innocent = tmp_path / "forged", tmp_path / "innocent"
    shutil.copytree(memorized[0], forged)
    rewrite(forged / RECORD, privacy=HONEST | {"epsilon": 0.2})
    shutil.copytree(START, innocent)
    shutil.copy(memorized[0] / CANARIES, innocent)
    shutil.copy(memorized[0] / RECORD, innocent)
    for model, level, code in ((memorized[0], "leak", 1), (forged, "leak", 1), (innocent, "none", 0)):
        out = tmp_path / f"audit-{model.name}"
        asked = ["--model", str(model), "--red", str(corpus_folder), "--check", "canaries", "--out", str(out)]
        assert run(["mia", *asked, "-q"]) == code
        (check,) = json.loads((out / "results.json").read_text())["checks"]
        assert check["finding"]["level"] == level
    report = (tmp_path / "audit-forged/report.html").read_text()
    assert "Contradicted" in report
    assert "guaranteed epsilon at most 0.2; measured epsilon at least" in report
    assert memorized[1].salt not in report


def test_an_audit_with_very_few_guesses_says_what_they_cannot_show() -> None:
    few = bound_epsilon(Guesses(10, 2, 2), None)
    text = _sentence("unresolved", few, None, None, smallest_epsilon(2, 0.05))
    assert "Even if all guesses were correct, they would be too few" in text
    assert "inf" not in text
    text = _sentence("none", bound_epsilon(Guesses(400, 80, 44), None), None, None, smallest_epsilon(80, 0.05))
    assert "Four of five such audits would have found an epsilon of 0." in text


@pytest.mark.slow
def test_an_audit_says_that_coins_were_changed(
    memorized: tuple[Path, Manifest], corpus_folder: Path, tmp_path: Path
) -> None:
    changed, out = tmp_path / "changed", tmp_path / "audit"
    shutil.copytree(memorized[0], changed)
    rewrite(changed / CANARIES, guesses=10)
    asked = ["--model", str(changed), "--red", str(corpus_folder), "--check", "canaries", "--out", str(out)]
    assert run(["mia", *asked, "-q"]) == 3
    (check,) = json.loads((out / "results.json").read_text())["checks"]
    assert (check["status"], check["finding"]) == ("failed", None)
    assert check["reason"].startswith("the coins of the canaries do not have the hash of the commitment")


def test_what_differs_from_a_commitment_is_contradicted(memorized: tuple[Path, Manifest], tmp_path: Path) -> None:
    out, manifest = tmp_path / "copy", memorized[1]
    shutil.copytree(memorized[0], out)
    assert read_coins(out, Expected(commitment=manifest.commitment))[0].status == "verified"
    assert read_coins(out, Expected(commitment="0" * 64))[0].status == "contradicted"
    assert read_coins(out, Expected(nonce="another"))[0].status == "contradicted"
    held = json.loads((out / CANARIES).read_text())
    flipped = f"{int(held['coins'][0], 16) ^ 1:x}{held['coins'][1:]}"
    for change in ({"coins": flipped}, {"guesses": 10}, {"coins": "zz"}, {"canaries": True}, {"salt": None}):
        rewrite(out / CANARIES, **{**held, **change})
        found, none = read_coins(out, Expected())
        assert (found.status, none) == ("contradicted", None)
    other = Manifest.draw(40, 40)
    (out / CANARIES).write_text(json.dumps(other.revealed()))
    assert read_coins(out, Expected(commitment=other.commitment))[0].status == "contradicted"  # the record has another
    (out / CANARIES).unlink()
    assert read_coins(out, Expected())[0].status == "unknown"
    rewrite(out / RECORD, canaries=None)
    assert read_coins(out, Expected())[0].status == "not checked"
    assert read_coins(out, Expected(nonce="verifier 7"))[0].status == "contradicted"


def test_a_private_run_has_its_canaries_and_every_record(federate: Federate) -> None:
    federate("out", "fl-dp", BUDGETED, ONE, canaries=ASKED)
    out = federate.folder / "out"
    names = {path.name for path in out.iterdir()}
    assert CANARIES in names
    assert not names & {canaries.COINS, canaries.PAGES}
    lines, review = verify_records(out, Expected())
    assert [status_of(lines, name) for name in ("documents", "ledger")] == ["verified", "verified"]
    assert review is not None
    assert read_coins(out, Expected(nonce="verifier 7"))[0].status == "verified"
    released = json.loads((out / RECORD).read_text())
    assert released["canaries"] == json.loads(json.dumps(Manifest.draw(40, 40, "verifier 7").public())) | {
        "commitment": released["canaries"]["commitment"]
    }
    rewrite(out / RECORD, rounds=7)
    assert status_of(verify_records(out, Expected())[0], "documents") == "contradicted"
    rewrite(private_path(out), budget={})
    assert status_of(verify_records(out, Expected())[0], "ledger") == "not checked"
    empty = federate.folder / "other.ledger.json"
    assert status_of(verify_records(out, Expected(ledger=empty))[0], "ledger") == "unknown"
    (out / CANARIES).unlink()
    assert read_coins(out, Expected())[0].status == "unknown"  # the record has a commitment


@pytest.mark.slow
def test_what_the_ledger_holds_is_compared_with_the_record(federate: Federate) -> None:
    """Public and private record changed alike, to three times the noise: the ledger has what was reserved."""
    record = federate("out", "fl-dp", replace(PRIVATE, noise_seed=None, noise_multiplier=None, epsilon=8.0), QUICK)
    out = federate.folder / "out"
    assert status_of(verify_records(out, Expected())[0], "ledger") == "verified"
    changed = json.loads(json.dumps(record["privacy"]))
    sigma = 3 * changed["noise_multiplier"]
    epsilon = privacy_spent(Sampling(1.0, 0.6, 3), sigma, 1e-5).epsilon
    changed |= {"noise_multiplier": sigma, "epsilon": epsilon, "renyi": None, "composed": None}
    changed["mechanism"]["phases"][0]["parts"][2]["multiplier"] = sigma
    settings = {**record["identity"]["privacy"], "epsilon": epsilon}
    for path in (out / RECORD, private_path(out)):
        rewrite(path, privacy=changed, identity={**json.loads(path.read_text())["identity"], "privacy": settings})
    lines, review = verify_records(out, Expected())
    assert review is not None
    assert review.worth == "holds"
    assert {line.name: line.status for line in lines} == {
        "guarantee": "verified", "documents": "verified", "ledger": "contradicted",
    }  # fmt: skip


def test_included_canaries_are_providers_of_every_client(federate: Federate, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    real = canaries.draw_canaries

    def spy(*arguments: Any, **named: Any) -> Any:
        seen.append((arguments, real(*arguments, **named)))
        return seen[-1][1]

    monkeypatch.setattr(canaries, "draw_canaries", spy)
    record = federate("out", "fl", settings=ONE, canaries=ASKED)
    numbers, salt, _, _, clients, pairs = seen[0][0]
    assert pairs is None
    coins = json.loads((federate.folder / "out" / CANARIES).read_text())
    manifest = Manifest.check(coins, record["canaries"]["commitment"])
    assert list(numbers) == list(np.flatnonzero(manifest.coins))
    assert salt == manifest.salt
    assert {query.document.client for query in seen[0][1]} <= set(clients) == set(range(record["clients"]))


@pytest.mark.slow
def test_groups_of_a_fixed_size_replace_canaries(
    federate: Federate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Whatever the coins are, every client has as many providers; the two of a pair have the same client."""
    seen: list[list[Query]] = []
    real = canaries.draw_canaries

    def spy(*arguments: Any, **named: Any) -> Any:
        seen.append(real(*arguments, **named))
        return seen[-1]

    monkeypatch.setattr(canaries, "draw_canaries", spy)
    settings = replace(ONE, clients_per_round=2)
    record = federate("out", "fl-dp", GROUPS, settings, canaries=CanarySettings(40, 10))
    out = federate.folder / "out"
    manifest = Manifest.check(json.loads((out / CANARIES).read_text()), record["canaries"]["commitment"])
    numbers = [int(query.document.id.removeprefix("canary").removesuffix("_1")) for query in seen[0]]
    assert numbers == [at if coin else 40 + at for at, coin in enumerate(manifest.coins)]
    assert [query.document.client for query in seen[0]] == [at % record["clients"] for at in range(40)]
    review = verify_records(out, Expected())[1]
    assert review is not None
    assert review.claim is not None
    assert review.claim.sampling.kind == "fixed-size"
    asked: list[list[Query]] = []

    def losses(model: DocumentModel, queries: list[Query], progress: Progress) -> np.ndarray:
        """Losses of a model that has memorised the pages that it was trained on."""
        asked.append(queries)
        known = {query.document.id for query in seen[0]}
        return np.array([0.0 if query.document.id in known else 9.0 for query in queries])

    monkeypatch.setattr(verify, "canary_losses", losses)
    line, bounds = measure_canaries(out, manifest, review.claim, None, "cpu", tmp_path, Silent())
    assert len(asked[0]) == 80
    assert bounds.guesses == Guesses(40, 10, 10)
    assert line.status == "verified"  # 10 perfect guesses do not contradict so large an epsilon
    tight = review.claim.model_copy(update={"epsilon": 0.1})
    assert measure_canaries(out, manifest, tight, None, "cpu", tmp_path, Silent())[0].status == "contradicted"


@pytest.mark.slow
def test_a_run_that_was_cut_keeps_its_coins(federate: Federate) -> None:
    out = federate.folder / "out"
    with pytest.raises(KeyboardInterrupt):
        federate("out", "fl-dp", BUDGETED, replace(QUICK, rounds=2), Cut2(), canaries=ASKED)
    assert (out / KEY_FILE).is_file()
    published = json.loads((out / CANARIES).read_text())
    assert set(published) == {"commitment", "nonce", "canaries", "guesses"}
    coins = (out / canaries.COINS).read_text()
    rewrite(out / canaries.COINS, coins="0" * 10)
    with pytest.raises(AuditError, match="do not have the hash of the commitment"):
        federate("out", "fl-dp", BUDGETED, replace(QUICK, rounds=2), canaries=ASKED)
    (out / canaries.COINS).unlink()
    with pytest.raises(AuditError, match="is missing"):
        federate("out", "fl-dp", BUDGETED, replace(QUICK, rounds=2), canaries=ASKED)
    (out / canaries.COINS).write_text(coins)
    record = federate("out", "fl-dp", BUDGETED, replace(QUICK, rounds=2), canaries=ASKED)
    assert record["canaries"] == published
    assert json.loads((out / CANARIES).read_text())["coins"] == json.loads(coins)["coins"]


def test_a_model_that_neither_writes_nor_points_is_refused(tmp_path: Path) -> None:
    model: Any = SimpleNamespace(points=False, can_write=lambda text: False)
    with (
        pytest.raises(UsageError, match="canaries need a model that answers questions"),
        canaries.planted(ASKED, tmp_path, model, [], Silent()),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_is_refused_and_leaves_nothing(federate: Federate) -> None:
    with pytest.raises(UsageError, match="60,000 canaries are more than the 50,000"):  # a pair of pages each
        federate("a", "fl-dp", GROUPS, replace(ONE, clients_per_round=2), canaries=CanarySettings(60_000, 40))
    with pytest.raises(UsageError, match="41 guesses"):
        federate("a", "fl", settings=ONE, canaries=CanarySettings(40, 41))
    with pytest.raises(UsageError, match="150,000 canaries"):  # about half would be drawn, and verify draws all
        federate("a", "fl", settings=ONE, canaries=CanarySettings(150_000, 40))
    with pytest.raises(UsageError, match="clients a round"):
        federate("a", "fl", settings=replace(ONE, clients_per_round=99), canaries=ASKED)
    assert not (federate.folder / "a").exists()


@pytest.mark.slow
def test_the_command_verifies_and_its_exit_code_says_so(
    memorized: tuple[Path, Manifest], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, manifest = memorized
    assert run(["verify", str(out), "--commitment", manifest.commitment, "-q"]) == 0
    said = capsys.readouterr().out
    assert "noted before the training" in said
    assert "measured epsilon at least" in said
    assert run(["verify", str(out), "--commitment", "0" * 64, "--json"]) == 1
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert {check["name"]: check["status"] for check in checks}["coins"] == "contradicted"
    hostile = shutil.copytree(out, tmp_path / "hostile")
    for claim in ({"delta": 1e-320}, {"noise_multiplier": 1e-320}, {"noise_multiplier": 1e200}):
        rewrite(hostile / RECORD, privacy={**HONEST, **claim})
        assert run(["verify", str(hostile), "-q"]) == 3
        assert "measured      canaries: measured epsilon at least" in capsys.readouterr().out
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run(["verify", str(empty)]) == 2
    (empty / RECORD).write_text("{}")
    assert run(["verify", str(empty)]) == 3
