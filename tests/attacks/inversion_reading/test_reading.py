import json
import stat
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from pfl_audit.attacks.inversion.reading import LINE_HEIGHT, Tesseract, Word, enlarge, open_engine
from pfl_audit.attacks.inversion.template.fill import fill
from pfl_audit.attacks.inversion.word_scores import read_fields
from pfl_audit.errors import AuditError, UsageError
from tests.attacks.inversion.template.drawn import form

VALUES = {"field-1": "Rosa Falcon", "field-2": "01/02/2003", "field-3": "$12.50"}


def test_rapidocr_reads_what_is_written_and_nothing_in_noise() -> None:
    template = form()
    page = fill(template, VALUES, 0)
    noise = template.pixels.copy()
    noise[template.mask()] = np.random.default_rng(0).integers(0, 256, (7800, 3))
    engine = open_engine()
    assert engine.name.startswith("rapidocr 3")
    fields = [read_fields(engine, template, page.image, seen, VALUES) for seen in (page.image, noise)]
    assert [[(field.exact, field.readable, field.words) for field in some] for some in fields] == [
        [(2, 2, 2), (1, 1, 1), (1, 1, 1)],
        [(0, 2, 2), (0, 1, 1), (0, 1, 1)],
    ]
    assert [field.ratio for field in fields[0]] == [1.0] * 3
    assert sum(field.ratio for field in fields[1]) / 3 < 0.3


def test_low_lines_are_enlarged_by_a_whole_factor() -> None:
    assert enlarge(np.zeros((17, 120, 3), np.uint8)).shape == (68, 480, 3)
    assert enlarge(np.zeros((LINE_HEIGHT, 9, 3), np.uint8)).shape == (LINE_HEIGHT, 9, 3)


@pytest.fixture
def tesseract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name that reads the same in every picture."""
    program = tmp_path / "tesseract"
    header = "level\tconf\ttext"
    program.write_text(
        f"""#!{sys.executable}
import sys
if "--version" in sys.argv:
    print("tesseract 5.3.4\\n leptonica")
else:
    assert sys.stdin.buffer.read().startswith(b"\\x89PNG")
    print("{header}\\n4\\t-1\\t\\n5\\t96.5\\tRosa\\n5\\t40\\t\\"Fal")
"""
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    return program


def test_tesseract_is_asked_for_a_table(tesseract: Path) -> None:
    engine = open_engine("tesseract")
    assert engine.name == "tesseract 5.3.4"
    assert engine.read([np.zeros((9, 9, 3), np.uint8)]) == [[Word("Rosa", 0.965), Word('"Fal', 0.4)]]


def test_a_tesseract_that_fails_or_is_missing(tesseract: Path) -> None:
    engine = Tesseract()
    tesseract.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(UsageError, match="does not run"):
        engine.read([np.zeros((9, 9, 3), np.uint8)])
    tesseract.unlink()
    with pytest.raises(UsageError, match="no program called tesseract"):
        Tesseract()


def test_engines_that_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no OCR engine 'glasses'"):
        open_engine("glasses")
    with pytest.raises(UsageError, match="without weights"):
        open_engine("trocr")
    with pytest.raises(UsageError, match="takes no weights"):
        open_engine("rapidocr", tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        open_engine("trocr", tmp_path / "none")
    with pytest.raises(AuditError, match="it has no config"):
        open_engine("trocr", tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "no-such"}))
    save_file({"a": torch.zeros(1)}, tmp_path / "model.safetensors")
    with pytest.raises(AuditError, match="no TrOCR checkpoint that can be read"):
        open_engine("trocr", tmp_path)
    monkeypatch.setitem(sys.modules, "rapidocr", None)
    with pytest.raises(UsageError, match="needs rapidocr"):
        open_engine()


def test_trocr_reads_with_a_checkpoint_in_a_folder(tmp_path: Path) -> None:
    """A tiny one with random weights, whose only tokens are two words: it can say nothing else."""
    save_trocr(tmp_path)
    engine = open_engine("trocr", tmp_path)
    lines = engine.read([np.array(Image.new("RGB", (60, 20), colour)) for colour in ("white", "black")])
    assert len(lines) == 2
    assert {word.text for line in lines for word in line} <= {"Rosa", "Falcon"}
    assert any(lines)


def test_trocr_with_a_kernel_from_elsewhere_is_refused(tmp_path: Path) -> None:
    save_trocr(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["decoder"]["_attn_implementation_internal"] = "evil/kernel"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(AuditError, match=r"config\.json\.decoder names an attention kernel"):
        open_engine("trocr", tmp_path)


def save_trocr(folder: Path) -> None:
    import torch
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from transformers import (
        PreTrainedTokenizerFast,
        TrOCRConfig,
        TrOCRForCausalLM,
        VisionEncoderDecoderModel,
        ViTConfig,
        ViTImageProcessor,
        ViTModel,
    )

    torch.manual_seed(0)
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "Rosa": 4, "Falcon": 5}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Whitespace()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    ViTImageProcessor(size={"height": 16, "width": 16}).save_pretrained(folder)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    encoder = ViTModel(ViTConfig(image_size=16, patch_size=8, **size))
    decoder = TrOCRForCausalLM(
        TrOCRConfig(
            vocab_size=6, d_model=16, decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=16,
            cross_attention_hidden_size=16, is_decoder=True, add_cross_attention=True,
        )
    )  # fmt: skip
    with torch.no_grad():
        bias = decoder.output_projection.weight
        bias[4:] += 5 * torch.randn(2, bias.shape[1])
    model = VisionEncoderDecoderModel(encoder=encoder, decoder=decoder)
    model.config.decoder_start_token_id, model.config.pad_token_id, model.config.eos_token_id = 0, 1, 2
    model.generation_config.decoder_start_token_id, model.generation_config.pad_token_id = 0, 1
    model.save_pretrained(folder, safe_serialization=True)
