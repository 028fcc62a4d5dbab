import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pfl_audit.errors import AuditError
from pfl_audit.models.encoders.checkpoint import save_encoder
from pfl_audit.training.forms.begin import start_from
from tests.models.encoders.makers import config, encoder


def bare_bert(folder: Path) -> dict[str, torch.Tensor]:
    """A BERT as sentence encoders are saved: no prefix, no head, a pooler."""
    loaded = encoder("bert", "mlm", seed=1)
    save_encoder(loaded, folder)
    state = {name[5:]: t for name, t in load_file(folder / "model.safetensors").items() if name.startswith("bert.")}
    state["pooler.dense.weight"] = torch.zeros(16, 16)
    save_file(state, folder / "model.safetensors")
    values = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**values, "architectures": ["BertModel"]}))
    return state


def test_a_layoutlm_begins_with_a_bert(tmp_path: Path) -> None:
    state = bare_bert(tmp_path)
    started = start_from(config("layoutlm", "mlm", "bimodal"), tmp_path)
    own = started.network.state_dict()
    for name in state:
        if not name.startswith("pooler"):
            assert torch.equal(own[f"layoutlm.{name}"], state[name]), name
    assert "layoutlm.embeddings.x_position_embeddings.weight" in started.fresh
    assert all(not name.startswith("layoutlm.encoder") for name in started.fresh)
    assert "visual.projection.weight" in started.fresh
    assert "cls.predictions.bias" in started.fresh
    assert set(started.taken) | set(started.fresh) == set(started.taken + started.fresh)
    assert "embeddings.x_position_embeddings" in started.notes[1]
    assert started.network.cls.predictions.decoder.weight is started.network.words.weight


def test_a_head_and_a_page_side_that_fit_are_taken_and_another_tasks_is_new(tmp_path: Path) -> None:
    before = encoder("layoutlm", "mlm", "bimodal", seed=1)
    save_encoder(before, tmp_path)
    same = start_from(before.config, tmp_path)
    assert same.fresh == ()
    assert all(torch.equal(a, b) for a, b in zip(same.network.parameters(), before.network.parameters(), strict=True))
    other = start_from(config("layoutlm", "ee-bio", "bimodal"), tmp_path)
    assert other.fresh == ("classifier.weight", "classifier.bias")
    assert len(same.notes) == 1
    small = start_from(config("layoutlm", "mlm", "bimodal", visual=replace(before.config.visual, stem=8)), tmp_path)
    assert {name.split(".")[0] for name in small.fresh} == {"visual"}


def test_a_head_of_the_same_task_is_new_as_well(tmp_path: Path) -> None:
    save_encoder(encoder("bert", "ee-bio", seed=1), tmp_path)
    assert start_from(config("bert", "ee-bio"), tmp_path).fresh == ("classifier.weight", "classifier.bias")


def test_fewer_positions_and_layers_are_cut_and_more_layers_are_new(tmp_path: Path) -> None:
    state = bare_bert(tmp_path)
    less = start_from(config("bert", "mlm", positions=40, layers=1), tmp_path)
    positions = less.network.state_dict()["bert.embeddings.position_embeddings.weight"]
    assert torch.equal(positions, state["embeddings.position_embeddings.weight"][:40])
    more = start_from(config("bert", "mlm", layers=3), tmp_path)
    assert any("encoder.layer.2." in name for name in more.fresh)
    assert not any("encoder.layer.1." in name for name in more.fresh)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"hidden": 32}, "word_embeddings.weight is .*, and the new encoder needs"),
        ({"vocabulary": 500}, "word_embeddings.weight"),
        ({"positions": 60}, "position_embeddings.weight"),
        ({"intermediate": 30}, "intermediate.dense"),
    ],
)
def test_another_size_is_named(tmp_path: Path, changes: dict, line: str) -> None:
    bare_bert(tmp_path)
    with pytest.raises(AuditError, match=line):
        start_from(config("layoutlm", "mlm", **changes), tmp_path)


def test_a_checkpoint_without_a_text_side_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    save_file({"conv.weight": torch.zeros(2)}, tmp_path / "model.safetensors")
    with pytest.raises(AuditError, match="no text side"):
        start_from(config("bert", "mlm"), tmp_path)


def test_an_output_layer_of_its_own_is_left_out_and_said(tmp_path: Path) -> None:
    before = encoder("bert", "mlm", seed=1, text={"tie_word_embeddings": False})
    head = before.network.get_submodule("cls.predictions.decoder")
    head.weight = torch.nn.Parameter(2 * before.network.words.weight.detach())
    save_encoder(before, tmp_path)
    started = start_from(config("bert", "mlm"), tmp_path)
    assert started.network.cls.predictions.decoder.weight is started.network.words.weight
    assert "the checkpoint's output layer is left out" in started.notes[-1]
    assert len(start_from(config("bert", "ee-bio"), tmp_path).notes) == 2
