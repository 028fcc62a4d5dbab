"""The page on which a person compares proposed values with what is printed."""

import re
from pathlib import Path

from PIL import Image

from pfl_audit.documents.document import as_boxes
from pfl_audit.importing.contact_sheet import write_contact_sheet
from pfl_audit.importing.proposals import Proposal
from pfl_audit.importing.reading import ReadPage


def test_the_name_of_a_value_stands_on_the_side_that_has_room(tmp_path: Path) -> None:
    """To its right it would leave the page of a value near the right edge, and a phone's screen."""
    Image.new("RGB", (40, 40)).save(tmp_path / "a.png")
    boxes = as_boxes([[0.1, 0.1, 0.2, 0.2], [0.8, 0.1, 0.9, 0.2]], 2)
    page = ReadPage("a.png", 1, tmp_path / "a.png", ("left", "right"), boxes, by_ocr=True)
    values = [Proposal("iban", "left", 0, (0, 1)), Proposal("invoice_date", "right", 0, (1, 2))]
    assert write_contact_sheet(tmp_path / "sheet.html", {"a.png": [page]}, {"a.png": values}) == 0
    named = re.findall(r'<i( class="left")?>(\w+)</i>', (tmp_path / "sheet.html").read_text())
    assert named == [("", "iban"), (' class="left"', "invoice_date")]
