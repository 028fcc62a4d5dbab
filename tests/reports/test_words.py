import pytest

from pfl_audit.core.results import Data, Metric
from pfl_audit.reports.words import glossary, small_print


@pytest.mark.parametrize(("n", "said"), [(1, "1 document"), (0, "0 documents"), (12, "12 documents")])
def test_how_many_are_behind_a_number(n: int, said: str) -> None:
    assert small_print(Metric(name="words exact", value=0.5, n=n, unit="documents")) == said


def data(subject: str, **more: dict[str, str]) -> Data:
    return Data(subject=subject, format="", path="", sha256="", documents=0, queries=0, **more)


def test_a_term_that_two_audits_use_apart_is_told_for_both() -> None:
    pages, gradients = data("questions"), data("gradients")
    both = glossary([pages, gradients])
    for term in ("Chance", "Interval"):
        assert glossary([pages])[term] != glossary([gradients])[term]
        assert both[term] == f"{glossary([pages])[term]} {glossary([gradients])[term]}"
    assert glossary([pages, pages]) == glossary([pages])


def test_a_subject_of_a_stranger_brings_its_own_terms() -> None:
    assert glossary([data("captions", terms={"Caption": "A line below a picture."})]) == {
        "Caption": "A line below a picture."
    }


def test_what_a_report_on_forms_decides_by_is_explained() -> None:
    """Its findings go by secrets, by tokens and by the area; its intervals by providers where they are known."""
    terms = glossary([data("forms")])
    assert {"Secret", "Over public knowledge", "Right tokens", "AccAt p, AccAUC"} <= terms.keys()
    assert "providers" in terms["Interval"]


def test_a_masked_report_explains_how_it_is_rounded() -> None:
    assert "Rounded" not in glossary([data("questions")])
    assert "about 7 companies or more" in glossary([data("questions")], 7)["Rounded"]
