"""Vision part of a bimodal encoder: features of a ResNet, pooled over each token's box."""

from __future__ import annotations

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn
from torch.nn import functional

from pfl_audit.documents.document import Boxes
from pfl_audit.models.encoders.config import VisualConfig
from pfl_audit.models.encoders.heads import INITIAL_STD

_WHITE = (255, 255, 255)


class Vision(nn.Module):
    """Page features for tokens.

    Args:
        hidden: Width of the tokens' embeddings.
    """

    def __init__(self, config: VisualConfig, hidden: int) -> None:
        super().__init__()
        from transformers import ResNetConfig, ResNetModel

        self.bins = config.bins
        self.backbone = ResNetModel(
            ResNetConfig(
                embedding_size=config.stem,
                hidden_sizes=list(config.channels),
                depths=list(config.depths),
                layer_type="basic",
            )
        )
        width = config.channels[-1]
        self.norm = nn.LayerNorm(width)
        self.projection = nn.Linear(width, hidden)
        # What is seen begins as large as a word's embedding, so that it does not drown a text side trained before.
        nn.init.normal_(self.projection.weight, std=INITIAL_STD / width**0.5)
        nn.init.zeros_(self.projection.bias)

    def page(self, pixels: Tensor) -> Tensor:
        """Pixels (pages, 3, side, side) to feature maps (pages, c, h, w)."""
        return self.backbone(pixels).last_hidden_state

    def forward(self, features: Tensor, boxes: Tensor, page: Tensor) -> Tensor:
        """Visual term of each token's embedding, (b, n, hidden)."""
        return self.projection(self.norm(roi_align(features, boxes, page, self.bins)))


def roi_align(features: Tensor, boxes: Tensor, page: Tensor, bins: int) -> Tensor:
    """Mean of a feature map over boxes (region-of-interest alignment, He et al., Mask R-CNN, section 3).

    A box is cut into bins x bins parts, each part's centre is read bilinearly, and the parts are averaged. Outside
    the centres of the outermost cells the map goes on as it ends.

    Args:
        features: Float (pages, c, h, w).
        boxes: Float (b, n, 4), shares of the page.
        page: int64 (b,), the page of each row of boxes.
        bins: Parts of a box, both ways.

    Returns:
        Float (b, n, c).
    """
    rows, tokens = boxes.shape[:2]
    steps = (torch.arange(bins, device=boxes.device, dtype=boxes.dtype) + 0.5) / bins
    low, size = boxes[..., :2], boxes[..., 2:] - boxes[..., :2]
    x = (low[..., :1] + size[..., :1] * steps)[:, :, None, :].expand(-1, -1, bins, -1)
    y = (low[..., 1:] + size[..., 1:] * steps)[:, :, :, None].expand(-1, -1, -1, bins)
    grid = torch.stack([x, y], dim=-1).reshape(rows, tokens, bins * bins, 2) * 2 - 1
    read = functional.grid_sample(features[page], grid.to(features.dtype), padding_mode="border", align_corners=False)
    return read.mean(dim=-1).transpose(1, 2)


def small_page(page: Image.Image, side: int, patch: Boxes | None = None) -> Tensor:
    """Scale a page, without regard to its proportions.

    Args:
        page: RGB.
        side: Pixels that it shall have, both ways.
        patch: float32 (k, 4): shares of the page to paint white first, at the page's own resolution and with a
            pixel around, so that scaling down draws nothing of them in (CDMI, section 3.1).

    Returns:
        uint8 (side, side, 3).
    """
    if patch is not None and len(patch):
        page = page.copy()
        width, height = page.size
        for left, top, right, bottom in patch.tolist():
            corner = (max(int(left * width) - 1, 0), max(int(top * height) - 1, 0))
            page.paste(_WHITE, (*corner, min(int(right * width) + 2, width), min(int(bottom * height) + 2, height)))
    return torch.from_numpy(np.array(page.resize((side, side), Image.Resampling.BILINEAR)))


def page_pixels(small: Tensor) -> Tensor:
    """Normalise a scaled page for the ResNet: float32 (3, side, side), -1 to 1; white is 1."""
    return small.permute(2, 0, 1).float() / 127.5 - 1.0


def noise_pixels(side: int, seed: int) -> Tensor:
    """Gaussian noise in place of a page (CDMI, section 6.2): float32 (3, side, side), of unit variance."""
    return torch.randn(3, side, side, generator=torch.Generator().manual_seed(seed))
