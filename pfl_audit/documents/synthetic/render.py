"""Rendering of an invoice: page image, and the words and boxes that OCR would find."""

from __future__ import annotations

import math

from pfl_audit.documents.synthetic.canvas import HEIGHT, WIDTH, Canvas
from pfl_audit.documents.synthetic.invoice import Invoice, money
from pfl_audit.documents.synthetic.providers import Provider

_MARGIN = 40
_TITLES = (
    "INVOICE",
    "INVOICE",
    "INVOICE",
    "AIRTIME STATEMENT",
    "BROADCAST BILL",
    "SPOT ACCOUNT",
    "WAYBILL",
    "METER BILL",
)
"""Title of the page in each wording."""
LABELS = {
    "invoice_number": (
        "Invoice Number:",
        "Invoice No.",
        "Reference:",
        "Statement:",
        "Bill ref.",
        "Doc #",
        "Consignment:",
        "Account:",
    ),
    "invoice_date": (
        "Invoice Date:",
        "Date:",
        "Issued:",
        "Dated:",
        "Statement date:",
        "Aired until:",
        "Loaded:",
        "Read on:",
    ),
    "due_date": (
        "Due Date:",
        "Payment due:",
        "Due:",
        "Pay by:",
        "Settle by:",
        "Payable until:",
        "Settlement by:",
        "Last day:",
    ),
    "purchase_order": (
        "Purchase Order:",
        "PO Number:",
        "PO:",
        "Campaign:",
        "Buy no.",
        "Estimate:",
        "Booking:",
        "Contract:",
    ),
    "payment_terms": ("Terms:", "Payment Terms:", "Terms:", "Conditions:", "Settlement:", "Credit:", "Basis:", "Plan:"),
    "customer_name": (
        "Bill To:",
        "Customer:",
        "Sold to:",
        "Advertiser:",
        "Client:",
        "Account of:",
        "Consignee:",
        "Supply to:",
    ),
    "subtotal": (
        "Subtotal:",
        "Net amount:",
        "Subtotal",
        "Gross:",
        "Airtime:",
        "Sum of spots",
        "Carriage:",
        "Consumption:",
    ),
    "tax_amount": ("Tax:", "Sales tax:", "VAT", "Levy:", "Duty:", "Surcharge", "Toll:", "Excise:"),
    "total_amount": (
        "Total:",
        "Amount due:",
        "Grand total",
        "Net due:",
        "Payable:",
        "Balance",
        "Freight charge:",
        "To transfer:",
    ),
    "provider_phone": ("Phone:", "Tel.", "T:", "Call:", "Desk:", "Line:", "Dispatch:", "Helpline:"),
    "provider_email": ("Email:", "Mail:", "E:", "Write to:", "Inbox:", "Traffic:", "Office:", "Contact:"),
    "tax_number": (
        "Tax ID:",
        "Tax Number:",
        "VAT No.",
        "Fiscal no.",
        "EIN:",
        "Tax code:",
        "Carrier code:",
        "Utility code:",
    ),
    "registration_id": (
        "Registration:",
        "Reg. ID:",
        "Registered:",
        "Licence:",
        "File:",
        "Facility:",
        "Permit:",
        "Concession:",
    ),
}
"""Label of each key in each wording."""


def render_invoice(invoice: Invoice) -> Canvas:
    """Draw the invoice in its provider's style."""
    canvas = Canvas()
    draw_on(canvas, invoice)
    return canvas


def draw_on(canvas: Canvas, invoice: Invoice) -> None:
    """Draw the invoice on an empty page."""
    top = _head(canvas, invoice)
    top = _references(canvas, invoice, top)
    top = _table(canvas, invoice, top)
    _totals(canvas, invoice, top)
    _foot(canvas, invoice)


def _label(key: str, provider: Provider) -> str:
    return LABELS[key][provider.style.wording]


def _head(canvas: Canvas, invoice: Invoice) -> float:
    provider, style = invoice.provider, invoice.provider.style
    logo_x, text_x, align = {
        "logo-left": (_MARGIN + 30.0, _MARGIN + 80.0, "left"),
        "logo-right": (WIDTH - _MARGIN - 30.0, float(_MARGIN), "left"),
        "banner": (_MARGIN + 30.0, WIDTH - float(_MARGIN), "right"),
        "centred": (WIDTH / 2, WIDTH / 2, "centre"),
        "sidebar": (_MARGIN + 55.0, _MARGIN + 110.0, "left"),
    }[style.layout]
    logo_y = 60.0
    if style.layout == "banner":
        canvas.draw.rectangle((0, 0, WIDTH, 22), fill=style.primary)
    if style.layout == "sidebar":
        canvas.draw.rectangle((0, 0, 22, HEIGHT), fill=style.primary)
    _logo(canvas, provider, logo_x, logo_y)
    top = 105.0 if style.layout == "centred" else 36.0
    name = invoice.values["provider_name"]
    if invoice.logo_only:
        # A word mark: drawn like a logo, slanted over a coloured plate, and not read by OCR.
        _word_mark(canvas, provider, name, (text_x, top), align)
    else:
        canvas.text((text_x, top), name, family=style.font, size=17, bold=True, colour=style.primary, align=align)
    top += 25
    lines = list(provider.address)
    lines += [
        f"{_label(key, provider)} {invoice.values[key]}"
        for key in ("provider_phone", "provider_email")
        if key in invoice.values
    ]
    if "provider_website" in invoice.values:
        lines.append(invoice.values["provider_website"])
    for line in lines:
        top = canvas.text((text_x, top), line, family=style.font, align=align)
    return max(top + 16, 150.0)


def _word_mark(canvas: Canvas, provider: Provider, name: str, position: tuple[float, float], align: str) -> None:
    style = provider.style
    family = "DejaVuSerif" if style.font != "DejaVuSerif" else "DejaVuSans"
    left, top = position
    before = canvas.page.size
    canvas.text((left, top), name, family=family, size=17, bold=True, colour=style.accent, align=align, readable=False)
    width = 9 * len(name)
    left -= {"left": 0.0, "centre": 0.5, "right": 1.0}[align] * width
    canvas.draw.line((left, top + 22, left + min(width, before[0] / 2), top + 22), fill=style.primary, width=2)


def _logo(canvas: Canvas, provider: Provider, x: float, y: float) -> None:
    style, draw, r = provider.style, canvas.draw, 26.0
    box = (x - r, y - r, x + r, y + r)
    if style.logo == "disc":
        draw.ellipse(box, fill=style.primary)
    elif style.logo == "ring":
        draw.ellipse(box, outline=style.primary, width=9)
    elif style.logo == "square":
        draw.rectangle(box, fill=style.primary, outline=style.accent, width=5)
    elif style.logo == "bars":
        for step in range(4):
            left = x - r + step * 14
            draw.rectangle(
                (left, y + r - 12 * (step + 1), left + 9, y + r), fill=style.accent if step % 2 else style.primary
            )
    else:
        corners, turn = {"diamond": (4, 0.0), "triangle": (3, -90.0), "hexagon": (6, 0.0), "chevron": (3, 0.0)}[
            style.logo
        ]
        angles = [math.radians(turn + 360 / corners * step) for step in range(corners)]
        draw.polygon(
            [(x + r * math.cos(a), y + r * math.sin(a)) for a in angles], fill=style.primary, outline=style.accent
        )
    draw.ellipse((x + 4, y + 4, x + 18, y + 18), fill=style.accent)


def _references(canvas: Canvas, invoice: Invoice, top: float) -> float:
    provider, style = invoice.provider, invoice.provider.style
    left = 70.0 if style.layout == "sidebar" else float(_MARGIN)
    title = canvas.text(
        (left, top), _TITLES[style.wording], family=style.font, size=20, bold=True, colour=style.primary
    )
    low = canvas.text((left, title), _label("customer_name", provider), family=style.font, bold=True)
    for line in (invoice.values["customer_name"], *invoice.customer_address):
        low = canvas.text((left, low), line, family=style.font)
    right = title
    for key in ("invoice_number", "invoice_date", "due_date", "purchase_order", "payment_terms"):
        if key in invoice.values:
            canvas.text((310, right), _label(key, provider), family=style.font, bold=True)
            right = canvas.text((WIDTH - _MARGIN, right), invoice.values[key], family=style.font, align="right")
    return max(low, right) + 18


def _table(canvas: Canvas, invoice: Invoice, top: float) -> float:
    style = invoice.provider.style
    left = 70.0 if style.layout == "sidebar" else float(_MARGIN)
    canvas.draw.rectangle((left - 4, top - 3, WIDTH - _MARGIN + 4, top + 15), fill=style.primary)
    white = (255, 255, 255)
    canvas.text((left, top), "Item", family=style.font, bold=True, colour=white)
    canvas.text((370, top), "Qty", family=style.font, bold=True, colour=white, align="right")
    canvas.text((450, top), "Price", family=style.font, bold=True, colour=white, align="right")
    top = canvas.text((WIDTH - _MARGIN, top), "Amount", family=style.font, bold=True, colour=white, align="right") + 5
    for line in invoice.lines:
        canvas.text((left, top), line.item, family=style.font)
        canvas.text((370, top), str(line.quantity), family=style.font, align="right")
        canvas.text((450, top), money(line.price), family=style.font, align="right")
        amount = money(line.quantity * line.price)
        top = canvas.text((WIDTH - _MARGIN, top), amount, family=style.font, align="right") + 3
        if style.ruled:
            canvas.draw.line((left, top - 3, WIDTH - _MARGIN, top - 3), fill=style.accent)
    return top + 14


def _totals(canvas: Canvas, invoice: Invoice, top: float) -> None:
    provider, style = invoice.provider, invoice.provider.style
    for key in ("subtotal", "tax_amount", "total_amount"):
        bold = key == "total_amount"
        canvas.text((340, top), _label(key, provider), family=style.font, bold=bold)
        top = canvas.text((WIDTH - _MARGIN, top), invoice.values[key], family=style.font, bold=bold, align="right")


def _foot(canvas: Canvas, invoice: Invoice) -> None:
    provider, style = invoice.provider, invoice.provider.style
    canvas.draw.line((_MARGIN, HEIGHT - 56, WIDTH - _MARGIN, HEIGHT - 56), fill=style.accent, width=2)
    left = float(_MARGIN)
    for key in ("tax_number", "registration_id"):
        if key in invoice.values:
            canvas.text(
                (left, HEIGHT - 48), f"{_label(key, provider)} {invoice.values[key]}", family=style.font, size=10
            )
        left += 240
