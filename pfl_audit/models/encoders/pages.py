"""Pages for the vision backbone: images at small size, and the features of scrubbed pages, with caches."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from PIL import Image
from torch import Tensor

from pfl_audit.documents.document import Boxes
from pfl_audit.documents.forms.form import Form
from pfl_audit.errors import UnanswerableError
from pfl_audit.models.encoders.network import FormEncoder
from pfl_audit.models.encoders.visual import noise_pixels, page_pixels, small_page
from pfl_audit.models.form_protocol import Blank

_OPEN_PAGES = 2
_SMALL_BYTES = 256 << 20
_FEATURE_BYTES = 256 << 20
_PAGES_AT_ONCE = 8

_Key = tuple[str, bytes]


class PageReader:
    """Pixels of the pages of forms, with a cache.

    Args:
        side: Pixels that a page is scaled to, both ways.
        noise: Seed of the Gaussian noise that replaces every page, or None.
    """

    def __init__(self, side: int, noise: int | None = None) -> None:
        self.side = side
        self.noise = noise
        self._open: OrderedDict[str, Image.Image] = OrderedDict()
        self._small: OrderedDict[str, Tensor] = OrderedDict()

    def pixels(self, form: Form, patch: Boxes | None = None) -> Tensor:
        """A form's page, float32 (3, side, side), -1 to 1, with a white patch where one is asked for.

        Raises:
            UnanswerableError: It has no image, or one that cannot be opened.
        """
        if self.noise is not None:
            return noise_pixels(self.side, int(form.document.digest[:12], 16) ^ self.noise)
        if form.document.image is None:
            raise UnanswerableError(
                f"the form {form.id} has no page image, which a bimodal model needs",
                "Give forms with images, or a unimodal model",
                "it has no page image, which a bimodal model needs",
            )
        name = form.document.image.digest
        if patch is not None:
            return page_pixels(small_page(self._page(form, name), self.side, patch))
        if name not in self._small:
            self._small[name] = small_page(self._page(form, name), self.side)
            while len(self._small) * self.side**2 * 3 > _SMALL_BYTES:
                self._small.popitem(last=False)
        return page_pixels(self._small[name])

    def _page(self, form: Form, name: str) -> Image.Image:
        assert form.document.image is not None  # noqa: S101 - the caller looked
        if name not in self._open:
            self._open[name] = form.document.image.open()
            while len(self._open) > _OPEN_PAGES:
                self._open.popitem(last=False)
        return self._open[name]


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
