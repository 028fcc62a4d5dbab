"""A template drawn for tests: two frames and a rule on paper of 200 x 160 pixels."""

import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pfl_audit.attacks.inversion.template.template import Template, TemplateField, Window

SIZE = (200, 160)
WINDOWS: tuple[Window, ...] = ((60, 20, 190, 40), (60, 50, 190, 70), (60, 90, 190, 110))


def draw_form() -> Image.Image:
    page = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(page)
    for number, (left, top, right, bottom) in enumerate(WINDOWS):
        draw.text((8, top + 4), f"Label {number}:", fill="black", font=ImageFont.load_default(10))
        if number < 2:
            draw.rectangle((left - 1, top - 1, right, bottom), outline="grey")
        else:
            draw.line((left, bottom, right - 1, bottom), fill="grey")
    return page


def form(labels: tuple[str, ...] = ("Name:", "Date:", "")) -> Template:
    width, height = SIZE
    fields = tuple(
        TemplateField(f"field-{at}", (left / width, top / height, right / width, bottom / height), label)
        for at, ((left, top, right, bottom), label) in enumerate(zip(WINDOWS, labels, strict=True), start=1)
    )
    return Template(np.array(draw_form(), dtype=np.uint8), fields)


def save_form(folder: Path, fields: object = None) -> tuple[Path, Path]:
    draw_form().save(folder / "t.png")
    listed = [{"label": f"Label {at}:", "box": list(window)} for at, window in enumerate(WINDOWS)]
    (folder / "fields.json").write_text(json.dumps(listed if fields is None else fields))
    return folder / "t.png", folder / "fields.json"
