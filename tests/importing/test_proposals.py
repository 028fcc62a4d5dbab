import time
from pathlib import Path

import pytest

from pfl_audit.documents.document import as_boxes
from pfl_audit.importing.proposals import propose
from pfl_audit.importing.reading import ReadPage


def page(text: str, number: int = 1) -> ReadPage:
    words = tuple(text.split())
    boxes = as_boxes([[0, 0, 1, 1]] * len(words), len(words))
    return ReadPage("a.pdf", number, Path("a.png"), words, boxes, by_ocr=False)


def proposed(*texts: str, region: str = "US") -> dict[str, str]:
    pages = [page(text, number) for number, text in enumerate(texts, 1)]
    found = propose(pages, region)
    for one in found:
        words = pages[one.page].words[slice(*one.words)]
        assert one.value in " ".join(words)
    return {one.key: one.value for one in found}


def test_an_invoice() -> None:
    text = (
        "Acme Ltd (202) 555-0107 billing@acme.example www.acme.example Invoice date: 12/31/2021 "
        "Due date: 01/30/2022 Subtotal $1,200.00 Tax 34.50 Total: $1,234.50 IBAN DE89 3704 0044 0532 0130 00 Berlin"
    )
    assert proposed(text) == {
        "provider_email": "billing@acme.example",
        "provider_phone": "(202) 555-0107",
        "provider_website": "www.acme.example",
        "iban": "DE89 3704 0044 0532 0130 00",
        "invoice_date": "12/31/2021",
        "due_date": "01/30/2022",
        "total_amount": "$1,234.50",
    }


@pytest.mark.parametrize(
    ("text", "region", "value"),
    [
        ("USt-IdNr. DE136695976 Konto", "DE", "DE136695976"),
        ("VAT No. GB 980 7806 84", "GB", "GB 980 7806 84"),
        ("EIN: 91-1144442 of", "US", "91-1144442"),
    ],
)
def test_tax_numbers_have_right_check_digits(text: str, region: str, value: str) -> None:
    assert proposed(text, region=region)["tax_number"] == value


@pytest.mark.parametrize("text", ["USt-IdNr. DE136695978", "IBAN DE89 3704 0044 0532 0130 01", "Order 91-1144442"])
def test_a_number_with_wrong_check_digits_or_without_a_label_is_not_proposed(text: str) -> None:
    assert not {"tax_number", "iban"} & proposed(text).keys()


@pytest.mark.parametrize("date", ["2021-12-31", "31.12.2021", "31-Dec-21", "31 December 2021", "Dec 31 2021"])
def test_dates_in_many_forms(date: str) -> None:
    assert proposed(f"issued {date} here")["invoice_date"] == date


def test_a_value_of_a_later_page_is_found_there() -> None:
    assert proposed("nothing here at all", "Total 9.00")["total_amount"] == "9.00"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Gross Total $290.00 Total due $0.00", "$290.00"),
        ("Gross Total $290.00 Total commission ($43.50)", "$290.00"),
        ("Total -43.50 credit", "-43.50"),
        ("Balance $0.00", "$0.00"),
    ],
)
def test_a_total_of_zero_or_below_is_proposed_where_there_is_no_other_amount(text: str, value: str) -> None:
    assert proposed(text)["total_amount"] == value


@pytest.mark.parametrize(
    ("text", "value"),
    [("Total $180.00 $7 off", "$180.00"), ("Total 180.00 € paid", "180.00 €"), ("Total 5.00€", "5.00€")],
)
def test_the_currency_of_the_next_amount_is_no_part_of_a_total(text: str, value: str) -> None:
    assert proposed(text)["total_amount"] == value


def test_noise_proposes_nothing() -> None:
    assert proposed("12 apples and 7.5 pears, 1/2 of 100 -- @home www 555") == {}


def test_a_page_of_numbers_is_read_in_time_and_proposes_a_short_amount() -> None:
    assert proposed("100 " * 1500 + "100.00") == {"total_amount": "100 100 100 100 100 100 100.00"}
    began = time.process_time()
    assert proposed("100 " * 20_000) == {}
    assert time.process_time() - began < 10
