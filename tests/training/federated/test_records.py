"""Records of a private run: what may be released, and what stays with the owner."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.training import records
from pfl_audit.training.federated.run import KEY_FILE
from pfl_audit.training.records import RECORD, commitment, private_path
from tests.training.federated.conftest import PRIVATE, QUICK, Federate
from tests.training.federated.test_refusals import Cut2

ONE = replace(QUICK, rounds=1)
SECRET = replace(PRIVATE, noise_seed=None)


def neighbours(federate: Federate) -> list[Path]:
    """Two corpora, of which the second lacks a provider of the first."""
    whole = open_corpus(federate.corpus, "blue")
    gone = next(query.document.provider for query in whole.queries if "train" in query.document.split)
    rest = Corpus(tuple(query for query in whole.queries if query.document.provider != gone), format=whole.format)
    folders = [federate.folder / "n", federate.folder / "n-minus-1"]
    for corpus, folder in zip((whole, rest), folders, strict=True):
        write_jsonl(corpus, folder)
    return folders


def released(folder: Path) -> dict[str, str]:
    """The text files of a checkpoint without the commitment, which is drawn for each run."""
    texts = {path.name: path.read_text() for path in folder.iterdir() if path.suffix in (".json", ".csv")}
    drawn = json.loads(texts[RECORD])["data"]["commitment"]
    return {name: text.replace(drawn, "COMMITMENT") for name, text in texts.items()}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("mode", ["fl-dp", "central-dp"])
def test_a_released_folder_is_the_same_without_a_provider(federate: Federate, mode: str) -> None:
    found = []
    for name, data in zip(("one", "two"), neighbours(federate), strict=True):
        whole = federate(name, mode, SECRET, ONE, data=data, ledger=federate.folder / f"{name}.ledger.json")
        private = json.loads(private_path(federate.folder / name).read_text())
        assert private == json.loads(json.dumps(whole))
        assert private["data"]["commitment"] == commitment(private["data"]["salt"], private["data"]["sha256"])
        assert {"history", "updates"} <= set(private)
        found.append((released(federate.folder / name), private))
    assert found[0][0] == found[1][0]
    assert found[0][1]["data"]["providers"] == found[1][1]["data"]["providers"] + 1  # the private records differ
    text = "".join(found[0][0].values())
    hidden = [found[0][1]["data"][name] for name in ("sha256", "salt")]
    assert not any(secret in text for secret in hidden)


def test_the_private_record_is_the_owners_alone_and_beside_the_checkpoint(federate: Federate) -> None:
    federate("out", "fl-dp", SECRET, ONE)
    path = federate.folder / "out.private.json"
    assert path == private_path(federate.folder / "out")
    assert path.stat().st_mode & 0o777 == 0o600
    federate("plain", "fl", settings=ONE)
    assert not private_path(federate.folder / "plain").exists()
    assert "history" in json.loads((federate.folder / "plain" / RECORD).read_text())


def test_a_run_that_is_done_is_known_by_its_private_record(federate: Federate) -> None:
    first = federate("out", "fl-dp", SECRET, ONE)
    assert json.loads(json.dumps(first)) == federate("out", "fl-dp", SECRET, ONE)
    with pytest.raises(UsageError, match="holds a model of another run"):
        federate("out", "fl-dp", SECRET, ONE, data=neighbours(federate)[1])
    private_path(federate.folder / "out").unlink()
    with pytest.raises(UsageError, match="holds a model of another run"):
        federate("out", "fl-dp", SECRET, ONE)


@pytest.mark.slow
def test_a_run_that_was_cut_keeps_its_commitment(federate: Federate, monkeypatch: pytest.MonkeyPatch) -> None:
    path = private_path(federate.folder / "cut")
    with pytest.raises(KeyboardInterrupt):
        federate("cut", "fl-dp", SECRET, progress=Cut2())
    begun = json.loads(path.read_text())
    assert path.stat().st_mode & 0o777 == 0o600

    def stop(*arguments: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:  # after the last round, whose key is deleted
        patch.setattr("pfl_audit.training.run.write_private", stop)
        with pytest.raises(KeyboardInterrupt):
            federate("cut", "fl-dp", SECRET)
    assert not (federate.folder / "cut" / KEY_FILE).exists()
    assert federate("cut", "fl-dp", SECRET)["data"]["commitment"] == begun["data"]["commitment"]


def test_the_private_record_of_another_run_is_not_written_over(federate: Federate) -> None:
    federate("out", "fl-dp", SECRET, ONE)
    before = private_path(federate.folder / "out").read_bytes()
    (federate.folder / "out").rename(federate.folder / "moved")
    with pytest.raises(UsageError, match="is the private record of another run") as caught:
        federate("out", "fl-dp", SECRET, ONE)
    assert "Move it away" in caught.value.remedy
    assert private_path(federate.folder / "out").read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"[", b"[]", b'{"data": 1}', b"\xff"])
def test_a_damaged_private_record_is_one_line(federate: Federate, content: bytes) -> None:
    private_path(federate.folder / "out").write_bytes(content)
    with pytest.raises(AuditError, match=r"out\.private\.json") as caught:
        federate("out", "fl-dp", SECRET, ONE)
    assert caught.value.remedy


def test_a_commitment_cannot_be_tested_without_its_salt() -> None:
    one, two = records.commit("digest"), records.commit("digest")
    assert one["commitment"] != two["commitment"]
    assert commitment(one["salt"], "digest") == one["commitment"] != commitment(one["salt"], "another")
    assert len(one["salt"]) == 64
