"""Loads page images for the vision backbone and caches them at small size."""

from __future__ import annotations

from collections import OrderedDict

from PIL import Image
from torch import Tensor

from pfl_audit.documents.document import Boxes
from pfl_audit.documents.forms.form import Form
from pfl_audit.errors import UnanswerableError
from pfl_audit.models.encoders.visual import noise_pixels, page_pixels, small_page

_OPEN_PAGES = 2
_SMALL_BYTES = 256 << 20


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
