"""Draw a corpus whose pages and questions are in German: python docs/results/other_language.py OUT SEED MEMBERS OTHERS.

The generator's fixed words (labels, titles, months, payment terms, goods, forms of sums, questions) are replaced by a
table; companies, layouts and numbers are drawn as by ``pfl-audit data make``. Umlauts are written ae, oe and ue, which
the tokenizer of the embedded models lacks. ``corpus.jsonl`` states the key of each question, since the tool recognises
English questions alone. MEMBERS companies are trained on and OTHERS are not; RED asks about as many of each as there
are of both.
"""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pfl_audit.documents.synthetic import generator, invoice, render
from pfl_audit.documents.synthetic.canvas import Canvas
from pfl_audit.documents.writers import write_jsonl
from pfl_audit.progress import Silent

MONTHS = (
    "Januar", "Februar", "Maerz", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
    "Dezember",
)  # fmt: skip
TERMS = (
    "14 Tage netto", "30 Tage netto", "45 Tage netto", "60 Tage netto", "sofort ohne Abzug", "10 Tage 2 Prozent Skonto",
)  # fmt: skip
GOODS = (
    "Spot", "Paket", "Banner", "Entwurf", "Druck", "Lieferung", "Lizenz", "Dienst", "Wartung", "Umfrage", "Filter",
    "Kabel", "Tafel",
)  # fmt: skip
LABELS = {
    "invoice_number": ("Rechnungsnummer:", "Rechnung Nr.", "Belegnummer:"),
    "invoice_date": ("Rechnungsdatum:", "Datum:", "Ausgestellt am:"),
    "due_date": ("Faellig am:", "Zahlbar bis:", "Zahlungsfrist:"),
    "purchase_order": ("Bestellnummer:", "Auftrag Nr.", "Bestellung:"),
    "payment_terms": ("Zahlungsbedingungen:", "Bedingungen:", "Zahlungsziel:"),
    "customer_name": ("Rechnung an:", "Kunde:", "Verkauft an:"),
    "subtotal": ("Zwischensumme:", "Nettobetrag:", "Summe netto"),
    "tax_amount": ("Steuer:", "Umsatzsteuer:", "MwSt."),
    "total_amount": ("Gesamtbetrag:", "Zu zahlen:", "Rechnungsbetrag"),
    "provider_phone": ("Telefon:", "Tel.", "Fernruf:"),
    "provider_email": ("E-Mail:", "Mail:", "Post:"),
    "tax_number": ("Steuernummer:", "Steuer-Nr.", "USt-IdNr."),
    "registration_id": ("Handelsregister:", "Register-Nr.", "Eingetragen:"),
}
"""Label of each key in each of the three wordings of general invoices."""
COLUMNS = {"Item": "Artikel", "Qty": "Menge", "Price": "Preis", "Amount": "Betrag"}
FRAMES = (
    "Wie lautet {}?",
    "Wie lautet {} in diesem Dokument?",
    "Wie lautet {} auf dieser Rechnung?",
    "Was ist {}?",
    "Was ist auf dieser Seite {}?",
    "Gesucht ist {}.",
    "Gesucht ist {} dieser Rechnung.",
    "Was steht im Dokument, wenn {} gesucht ist?",
)
NAMES = {
    "provider_name": ("der Name des Anbieters", "der Name der Firma, die diese Rechnung schrieb"),
    "provider_email": ("die E-Mail-Adresse des Anbieters", "die Mailadresse des Lieferanten"),
    "provider_phone": ("die Telefonnummer des Anbieters", "die Rufnummer des Lieferanten"),
    "provider_address": ("die Anschrift des Anbieters", "die Adresse des Lieferanten"),
    "provider_website": ("die Webseite des Anbieters", "die Internetadresse des Lieferanten"),
    "tax_number": ("die Steuernummer", "die Umsatzsteuernummer"),
    "registration_id": ("die Nummer im Handelsregister", "die Registernummer der Firma"),
    "invoice_number": ("die Rechnungsnummer", "die Nummer der Rechnung"),
    "invoice_date": ("das Rechnungsdatum", "das Datum der Rechnung"),
    "due_date": ("das Datum der Zahlungsfrist", "der Tag, bis zu dem zu zahlen ist"),
    "customer_name": ("der Name des Kunden", "der Name des Rechnungsempfaengers"),
    "purchase_order": ("die Bestellnummer", "die Nummer des Auftrags"),
    "payment_terms": ("die Zahlungsbedingung", "das Zahlungsziel"),
    "subtotal": ("die Zwischensumme", "der Nettobetrag"),
    "tax_amount": ("der Steuerbetrag", "der Betrag der Steuer"),
    "total_amount": ("der Gesamtbetrag", "der zu zahlende Betrag"),
}
"""Key to its names in questions."""


class GermanCanvas(Canvas):
    """A page whose table has German heads."""

    def text(self, position: tuple[float, float], text: str, **how: object) -> float:
        """Draw a line of text."""
        return super().text(position, COLUMNS.get(text, text), **how)  # type: ignore[arg-type]


def day(when: date, wording: int) -> str:
    """A date in the format of a wording."""
    month = MONTHS[when.month - 1]
    return (f"{when:%d.%m.%Y}", f"{when.day}. {month} {when.year}", f"{when:%d.%m.%y}")[wording]


def money(cents: int) -> str:
    """A sum in euros: ``1.234,50 EUR``."""
    return f"{cents / 100:,.2f} EUR".translate(str.maketrans(",.", ".,"))


def question(key: str, rng: np.random.Generator) -> str:
    """A question for a key, drawn uniformly."""
    choices = [frame.format(name) for frame in FRAMES for name in NAMES[key]]
    return choices[int(rng.integers(len(choices)))]


def main() -> None:
    """Replace the words, draw, and write ``corpus.jsonl``."""
    out, seed, members, others = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    replaced = {
        invoice: {"_day": day, "money": money, "_TERMS": TERMS, "_GOODS": list(GOODS)},
        render: {"Canvas": GermanCanvas, "money": money, "LABELS": LABELS, "_TITLES": ("RECHNUNG",) * 3},
        generator: {"draw_question": question},
    }
    for module, words in replaced.items():
        for name, word in words.items():
            setattr(module, name, word)
    recipe = generator.Recipe(
        members=members, non_members=others, red_providers=min(members, others), documents=2, red_documents=2, seed=seed
    )
    with TemporaryDirectory() as drawn:
        write_jsonl(generator.make_corpus(recipe, Path(drawn) / "corpus", Silent()), out)


if __name__ == "__main__":
    main()
