"""How a checkpoint is recognised, what ``inspect`` says of it, and audits end to end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.cli.main import run
from pfl_audit.errors import AuditError
from pfl_audit.models.donut.config import config_from_folder
from pfl_audit.models.donut.pixels import pixel_settings
from pfl_audit.models.donut.tokenizer import special_tokens
from pfl_audit.models.donut_fields.family import DonutFieldsFamily
from pfl_audit.models.donut_fields.tags import field_tags
from pfl_audit.models.donut_fields.training import open_training
from pfl_audit.models.open import family_of
from tests.models.donut.conftest import make_donut, save_as_transformers, train_unigram
from tests.models.donut_fields.conftest import KEYS, TASK, tag_names

__all__ = ["make_donut"]
MEMORIZED = ("--key", "provider_name", "--key", "tax_number")


@pytest.mark.parametrize(
    ("names", "settings", "task"),
    [
        ([TASK, *tag_names(["a"])], {}, TASK),
        ([TASK, "<s_iitcdip>", "<s_synthdog>", *tag_names(["a"])], {}, TASK),
        ([TASK, "<s_b>", *tag_names(["a"])], {}, None),
        ([TASK, "<s_b>", *tag_names(["a"])], {"decoder_start_token_id": 1}, "<s_b>"),
        (["<s>", *tag_names(["a"])], {"decoder_start_token_id": 0}, "<s>"),
        ([TASK, *tag_names(["a"])], {"decoder_start_token_id": 99}, TASK),
        ([TASK], {}, None),
        ([TASK, "<s_a\x1b>", "</s_a\x1b>"], {}, None),
    ],
)
def test_the_task_is_determined_by_start_token_and_tags(
    names: list[str], settings: dict[str, Any], task: str | None
) -> None:
    tags = field_tags({name: number for number, name in enumerate(names)}, [settings])
    assert (tags.task if tags else None) == task


def test_keys_are_paths_in_lower_case() -> None:
    names = [TASK, *tag_names(["Menu", "nm", "total price"])]
    tags = field_tags({name: number for number, name in enumerate(names)}, [])
    assert tags is not None
    assert tags.parts("menu.nm") == ("Menu", "nm")
    assert tags.parts("Total-Price") == ("total price",)
    assert tags.parts("menu.other") is None


def test_the_two_kinds_of_donut_are_told_apart(start: Path, make_donut: Callable[[str], Path]) -> None:
    assert isinstance(family_of(start), DonutFieldsFamily)
    for kind in ("ours", "theirs"):
        assert family_of(make_donut(kind)).name == "donut"


def test_an_unknown_task_costs_one_line(tmp_path: Path) -> None:
    marks = ["<s_one>", "<s_two>", *tag_names(KEYS)]
    save_as_transformers(tmp_path, train_unigram(["some words of a page", "and others"] * 9, tmp_path, marks))
    with pytest.raises(AuditError, match="its task token cannot be determined"):
        family_of(tmp_path)


def test_a_trained_model_begins_with_the_task_and_sees_the_pages_of_its_start(start: Path, tmp_path: Path) -> None:
    """Newer releases of transformers write both beside config.json."""
    folder, out = Path(shutil.copytree(start, tmp_path / "start")), tmp_path / "trained"
    tokenizer = (folder / "tokenizer.json").read_text().replace("<s_iitcdip>", "<s_other>")
    (folder / "tokenizer.json").write_text(tokenizer)
    task = special_tokens(folder)[TASK]
    (folder / "generation_config.json").write_text(json.dumps({"decoder_start_token_id": task}))
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    (folder / "preprocessor_config.json").rename(folder / "processor_config.json")
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": settings}))
    family = family_of(folder)
    assert isinstance(family, DonutFieldsFamily)
    model = open_training(folder, family.tags)
    model.save(out, {}, half=False)
    assert family_of(out) == family
    config = config_from_folder(out, json.loads((out / "config.json").read_text()))
    assert pixel_settings(out, config) == pixel_settings(folder, config)


def test_inspect_says_what_it_is(start: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inspect", str(start)]) == 0
    out = capsys.readouterr().out
    assert "donut-fields" in out
    assert f"by the task {TASK}" in out
    assert "provider_name" in out


@pytest.mark.slow
def test_membership_and_memorization(trained: Path, corpus_folder: Path, tmp_path: Path) -> None:
    common = ["--model", str(trained), "--red", str(corpus_folder), "--store", str(tmp_path / "s.sqlite"), "-q"]
    assert run(["mia", *common, "--out", str(tmp_path / "mia"), "--check", "membership.azk"]) in (0, 1, 3)
    assert run(["memorize", *common, "--out", str(tmp_path / "memorize"), *MEMORIZED]) in (0, 1, 3)
    found = {}
    for command in ("mia", "memorize"):
        results = json.loads((tmp_path / command / "results.json").read_text())
        assert results["target"]["family"] == "donut-fields"
        found |= {check["id"]: check for check in results["checks"]}
    assert found["membership.azk"]["status"] == "ran"
    assert found["memorization.provider_name"]["status"] == "ran"
    for check in ("memorization.tax_number", "memorization.unprompted"):
        assert found[check]["status"] == "skipped"
        assert "no field of the key '" in found[check]["reason"]
