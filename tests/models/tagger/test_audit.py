"""Audits end to end, ``inspect``, and folders that are not what they say."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli.main import run
from pfl_audit.errors import AuditError
from pfl_audit.models.auto.examine import examine
from pfl_audit.models.tagger.family import FAMILY
from pfl_audit.models.tagger.load import load_tagger
from tests.models.tagger.zoo import BIO, FAMILIES

Make = Callable[..., Path]


def edited(folder: Path, to: Path, **settings: Any) -> Path:
    shutil.copytree(folder, to)
    said = json.loads((to / "config.json").read_text())
    (to / "config.json").write_text(json.dumps({**said, **settings}))
    return to


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_membership_and_memorization(name: str, tagger: Make, here: None, corpus_folder: Path, tmp_path: Path) -> None:
    common = ["--model", str(tagger(name)), "--red", str(corpus_folder), "--store", str(tmp_path / "s.sqlite"), "-q"]
    assert run(["mia", *common, "--out", str(tmp_path / "mia"), "--check", "membership.azk"]) in (0, 1, 3)
    assert run(
        ["memorize", *common, "--out", str(tmp_path / "memorize"), "--key", "provider_name", "--key", "tax_number"]
    ) in (0, 1, 3)
    found = {}
    for command in ("mia", "memorize"):
        results = json.loads((tmp_path / command / "results.json").read_text())
        assert results["target"]["family"] == "token-tagger"
        found |= {check["id"]: check for check in results["checks"]}
    assert found["membership.azk"]["status"] == "ran"
    assert found["memorization.provider_name"]["status"] == "ran"
    assert found["memorization.tax_number"]["status"] == "skipped"
    assert "no field of the key 'tax_number'" in found["memorization.tax_number"]["reason"]


def test_inspect_says_what_it_is(tagger: Make, capsys: pytest.CaptureFixture[str]) -> None:
    for name in FAMILIES:
        assert run(["inspect", str(tagger(name)), "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["family"] == "token-tagger"
        assert "AutoModelForTokenClassification" in facts["asked"]
        assert "provider_name" in facts["asked"]
        assert facts["checks"]["membership.azk"]


def test_inspect_of_unusable_labels_prints_no_control_codes(
    tagger: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = {**dict(enumerate(BIO)), 1: "B-\x1b[31mred"}
    folder = edited(tagger("bert"), tmp_path / "odd", id2label=labels)
    assert run(["inspect", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "label 1 of id2label is no short printable text" in out
    assert "\x1b" not in out
    assert run(["mia", "--model", str(folder), "--red", str(tmp_path), "--out", str(tmp_path / "run")]) in (2, 3, 4)
    assert "\x1b[31mred" not in capsys.readouterr().err


@pytest.mark.parametrize("change", [["O"] * 40, BIO[:5]])
def test_labels_that_do_not_fit_the_head_cost_one_line(
    change: list[str], tagger: Make, here: None, tmp_path: Path
) -> None:
    labels = {number: f"B-{number}" for number in range(len(change))}
    folder = edited(tagger("bert"), tmp_path / "odd", id2label=labels, label2id={}, num_labels=len(labels))
    with pytest.raises(AuditError, match=r"cannot be loaded|another number|is missing"):
        load_tagger(folder)


@pytest.mark.slow
def test_the_examination_runs_in_a_child(tagger: Make) -> None:
    assert examine(tagger("layoutlmv3"))["turn"] is None


def test_other_heads_are_not_recognised(tagger: Make) -> None:
    config = json.loads((tagger("bert") / "config.json").read_text())
    assert FAMILY.recognises(config, frozenset())
    for classes in (None, [], ["BertForMaskedLM"], [3], "BertForTokenClassification"):
        assert not FAMILY.recognises({**config, "architectures": classes}, frozenset())
