"""Cache of the page features of a bimodal encoder, one feature map for each scrubbed page."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

from pfl_audit.models.encoders.network import FormEncoder
from pfl_audit.models.encoders.pages import PageReader
from pfl_audit.models.form_protocol import Blank

_FEATURE_BYTES = 256 << 20
_PAGES_AT_ONCE = 8

_Key = tuple[str, bytes]


class PageFeatureCache:
    """Feature maps of pages with a white patch over the scrubbed field; least recently used ones are dropped.

    The patch does not depend on what is filled in, so one map serves all attempts at a field.

    Args:
        network: Encoder that sees pages.
        noise: Seed of the Gaussian noise that replaces every page, or None.
    """

    def __init__(self, network: FormEncoder, device: torch.device, noise: int | None) -> None:
        assert network.config.page_side is not None  # noqa: S101 - the caller looked
        self._network = network
        self._device = device
        self._reader = PageReader(network.config.page_side, noise)
        self._features: OrderedDict[_Key, Tensor] = OrderedDict()

    def forget(self) -> None:
        """Drop all feature maps."""
        self._features.clear()

    def features_of(self, blanks: Sequence[Blank]) -> tuple[Tensor, list[int]]:
        """Feature maps (pages, c, h, w), and the index of each blank's page among them.

        Raises:
            UnanswerableError: A page image is missing or cannot be used.
        """
        keys = [(blank.window.form.document.digest, blank.patch.tobytes()) for blank in blanks]
        wanted = dict(zip(keys, blanks, strict=True))
        new = [key for key in wanted if key not in self._features]
        for start in range(0, len(new), _PAGES_AT_ONCE):
            some = new[start : start + _PAGES_AT_ONCE]
            pages = [self._reader.pixels(wanted[key].window.form, wanted[key].patch) for key in some]
            self._features.update(zip(some, self._network.page(torch.stack(pages).to(self._device)), strict=True))
        stacked = torch.stack([self._features[key] for key in wanted])
        for key in wanted:
            self._features.move_to_end(key)
        while len(self._features) * stacked[0].nbytes > _FEATURE_BYTES:
            self._features.popitem(last=False)
        place = {key: number for number, key in enumerate(wanted)}
        return stacked, [place[key] for key in keys]
