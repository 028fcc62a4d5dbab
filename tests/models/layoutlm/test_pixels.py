import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from pfl_audit.errors import AuditError
from pfl_audit.models.layoutlm.config import QaConfig, config_from_folder
from pfl_audit.models.layoutlm.pixels import PixelSettings, pixel_settings
from pfl_audit.models.weights import fingerprint_files

Make = Callable[[str], Path]


@pytest.fixture
def folder(make_qa: Make, tmp_path: Path) -> Path:
    return Path(shutil.copytree(make_qa("v3"), tmp_path / "ckpt"))


@pytest.fixture
def config(folder: Path) -> QaConfig:
    return config_from_folder(folder, json.loads((folder / "config.json").read_text()), 3)


def settings(folder: Path, config: QaConfig, content: object) -> PixelSettings:
    (folder / "preprocessor_config.json").write_text(json.dumps(content))
    return pixel_settings(folder, config)


def test_what_the_file_does_not_say(folder: Path, config: QaConfig) -> None:
    plain = PixelSettings((32, 32), mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), resample=2)
    assert settings(folder, config, {}) == settings(folder, config, {"size": 32, "image_mean": None}) == plain
    assert settings(folder, config, {"apply_ocr": True, "feature_extractor_type": "evil"}) == plain
    (folder / "preprocessor_config.json").unlink()
    assert pixel_settings(folder, config) == plain


def test_what_newer_releases_write_goes_before_the_older_file(folder: Path, config: QaConfig) -> None:
    (folder / "processor_config.json").write_text(json.dumps({"image_processor": {"image_mean": [0.1, 0.2, 0.3]}}))
    assert settings(folder, config, {"image_mean": [0.4] * 3}).mean == (0.1, 0.2, 0.3)
    before = fingerprint_files(folder)
    (folder / "processor_config.json").write_text(json.dumps({"processor_class": "LayoutLMv3Processor"}))
    assert settings(folder, config, {"image_mean": [0.4] * 3}).mean == (0.4, 0.4, 0.4)
    assert fingerprint_files(folder) != before


def test_pixels_without_normalisation(folder: Path, config: QaConfig) -> None:
    page = Image.fromarray(np.full((50, 70, 3), (255, 51, 0), dtype=np.uint8))
    pixels = settings(folder, config, {"do_normalize": False, "image_mean": [9, 9, 9]}).pixels(page)
    assert pixels.shape == (3, 32, 32)
    assert pixels[:, 0, 0].tolist() == pytest.approx([1.0, 0.2, 0.0])


def test_a_page_without_an_image_is_white(folder: Path, config: QaConfig) -> None:
    assert settings(folder, config, {}).pixels(None).unique().tolist() == [1.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "not a JSON object"),
        ({"size": 64}, "64 x 64 pixels do not make the 2 x 2 patches"),
        ({"size": {"height": 32, "width": 64}}, "64 x 32 pixels do not make"),
        ({"size": {"shortest_edge": 32}}, "width"),
        ({"size": "big"}, "size is not a whole number"),
        ({"size": 10**9}, "size is not a whole number"),
        ({"image_mean": 0.5}, "float"),
        ({"image_mean": [0.5]}, "image_mean is not three numbers"),
        ({"image_mean": ["a", "b", "c"]}, "could not convert"),
        ({"image_std": [0.5, 0.5, 0]}, "image_std is not three numbers"),
        ({"image_std": [0.5, 0.5, float("nan")]}, "image_std is not three numbers"),
        ({"resample": 17}, "resample is not a whole number of 0 to 5"),
        ({"do_resize": False}, "leaves out resizing"),
        ({"do_rescale": False}, "leaves out resizing or rescaling"),
        ({"do_center_crop": True}, "it crops pages"),
        ({"rescale_factor": 1}, "rescale_factor is not 1/255"),
        ({"rescale_factor": []}, "float"),
    ],
)
def test_settings_that_are_none(folder: Path, config: QaConfig, content: object, message: str) -> None:
    with pytest.raises(AuditError, match=rf"preprocessor_config\.json cannot be used: .*{message}"):
        settings(folder, config, content)
