import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pfl_audit.errors import AuditError
from pfl_audit.models.donut.config import DonutConfig, config_from_folder
from pfl_audit.models.donut.pixels import PixelSettings, pixel_settings

Make = Callable[[str], Path]


@pytest.fixture
def folder(make_donut: Make, tmp_path: Path) -> Path:
    return Path(shutil.copytree(make_donut("ours"), tmp_path / "ckpt"))


@pytest.fixture
def config(folder: Path) -> DonutConfig:
    return config_from_folder(folder, json.loads((folder / "config.json").read_text()))


def settings(folder: Path, config: DonutConfig, content: object) -> PixelSettings:
    (folder / "preprocessor_config.json").write_text(json.dumps(content))
    return pixel_settings(folder, config)


def picture(width: int, height: int) -> Image.Image:
    """Grey, the upper left quarter white."""
    values = np.full((height, width, 3), 128, dtype=np.uint8)
    values[: height // 2, : width // 2] = 255
    return Image.fromarray(values)


def test_what_the_files_do_not_say(folder: Path, config: DonutConfig) -> None:
    plain = PixelSettings((64, 48), mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5), resample=2, turn=False)
    assert settings(folder, config, {}) == plain
    assert settings(folder, config, {"size": [48, 64], "image_mean": None, "random_padding": True}) == plain
    (folder / "preprocessor_config.json").unlink()
    assert pixel_settings(folder, config) == plain
    assert PixelSettings((64, 64)) == settings(folder, config, {"size": 64})


def test_what_newer_releases_write(folder: Path, config: DonutConfig) -> None:
    (folder / "preprocessor_config.json").unlink()
    content = {"image_processor": {"size": {"height": 96, "width": 80}, "do_align_long_axis": True}}
    (folder / "processor_config.json").write_text(json.dumps(content))
    assert pixel_settings(folder, config) == PixelSettings((96, 80), turn=True)
    (folder / "processor_config.json").write_text("[1]")
    with pytest.raises(AuditError, match=r"processor_config\.json cannot be used: it is not a JSON object"):
        pixel_settings(folder, config)


def test_what_is_written_is_read(folder: Path, config: DonutConfig) -> None:
    odd = PixelSettings((80, 64), mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6), resample=3, turn=True)
    assert settings(folder, config, odd.to_dict()) == odd


def test_a_page_of_other_proportions_is_put_in_the_middle() -> None:
    pixels = PixelSettings((64, 48)).pixels(picture(400, 200))
    assert pixels.shape == (3, 64, 48)
    assert pixels[0, 30, 5] == pytest.approx(1.0)
    assert pixels[0, 30, 40] == pytest.approx(128 / 127.5 - 1, abs=1e-5)
    assert pixels[:, [0, 19, 44, 63]].unique().tolist() == [-1.0]
    assert bool((pixels[:, 20:44] >= 0).all())


def test_a_page_that_lies_is_turned_where_asked() -> None:
    page = picture(400, 300)
    turned = PixelSettings((64, 48), turn=True).pixels(page)
    by_hand = PixelSettings((64, 48)).pixels(page.transpose(Image.Transpose.ROTATE_270))
    assert torch.equal(turned, by_hand)
    assert turned[0, 5, 40] == 1.0
    assert torch.equal(PixelSettings((64, 48), turn=True).pixels(picture(300, 400)),
                       PixelSettings((64, 48)).pixels(picture(300, 400)))  # fmt: skip


def test_a_page_of_the_size_itself_is_only_scaled() -> None:
    noise = np.random.default_rng(0).integers(0, 256, size=(64, 48, 3), dtype=np.uint8)
    pixels = PixelSettings((64, 48)).pixels(Image.fromarray(noise))
    assert pixels.permute(1, 2, 0).numpy() == pytest.approx(noise / 127.5 - 1, abs=1e-5)


@pytest.mark.parametrize("size", [(1, 20), (20, 1), (3, 4), (2000, 100), (100, 2000)])
def test_pages_of_any_proportions(size: tuple[int, int]) -> None:
    for page in ((64, 48), (48, 64), (64, 64)):
        assert PixelSettings(page, turn=True).pixels(Image.new("RGB", size, "white")).shape == (3, *page)


def test_pixels_without_normalisation(folder: Path, config: DonutConfig) -> None:
    page = Image.fromarray(np.full((64, 48, 3), (255, 51, 0), dtype=np.uint8))
    pixels = settings(folder, config, {"do_normalize": False, "image_mean": [9, 9, 9]}).pixels(page)
    assert pixels[:, 0, 0].tolist() == pytest.approx([1.0, 0.2, 0.0])


def test_a_page_without_an_image_is_white() -> None:
    assert PixelSettings((64, 48)).pixels(None).unique().tolist() == [1.0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "not a JSON object"),
        ({"size": {"shortest_edge": 32}}, "height"),
        ({"size": "big"}, "size is not a whole number"),
        ({"size": 10**9}, "size is not a whole number"),
        ({"size": [1, 2, 3]}, "too many values"),
        ({"size": 16}, "a page of 16 x 16 pixels is 2 x 2 patches at the last stage, less than a window of 4"),
        ({"image_mean": 0.5}, "float"),
        ({"image_mean": [0.5]}, "image_mean is not three numbers"),
        ({"image_mean": ["a", "b", "c"]}, "could not convert"),
        ({"image_std": [0.5, 0.5, 0]}, "image_std is not three numbers"),
        ({"image_std": [0.5, 0.5, float("nan")]}, "image_std is not three numbers"),
        ({"resample": 17}, "resample is not a whole number of 0 to 5"),
        ({"do_resize": False}, "leaves out resizing"),
        ({"do_pad": False}, "leaves out resizing, the thumbnail, padding"),
        ({"do_center_crop": True}, "crops pages"),
        ({"rescale_factor": 1}, "rescale_factor is not 1/255"),
        ({"rescale_factor": []}, "float"),
        ({"do_align_long_axis": "yes"}, "do_align_long_axis is neither true nor false"),
    ],
)
def test_settings_that_are_none(folder: Path, config: DonutConfig, content: object, message: str) -> None:
    with pytest.raises(AuditError, match=rf"preprocessor_config\.json cannot be used: .*{message}"):
        settings(folder, config, content)
