from pathlib import Path

from pfl_audit.core.attack import ATTACKS
from pfl_audit.reports.coverage import DISCLAIMER, coverage, documentation, unclassified
from pfl_audit.reports.html import to_html
from tests.reports.sample import full, whole
from tests.reports.test_html import results


def test_every_class_of_paragraph_55_is_a_row() -> None:
    rows = coverage(full())
    assert [row.numeral for row in rows] == ["i", "ii", "iii", "iv", "v"]
    assert [len(row.ran) for row in rows] == [1, 0, 1, 0, 0]
    assert rows[4].missing == (("needs forms", "Reconstruction"),)  # what the audit has instead is in the annex
    assert "Out of scope" in rows[1].remark
    assert rows[1].atlas == ("AML.T0024.002", "AML.T0025")


def test_a_class_that_an_attack_declares_is_in_scope() -> None:
    """Also one that no attack of this package is of: the mapping is the attack's."""
    own = whole(review={
        "question": "Can it be copied?", "classes": ["exfiltration"], "access": "answers", "obtains": "documents",
    })  # fmt: skip
    row = coverage(results(own))[1]
    assert row.ran == (own,)
    assert row.remark == ""


def test_results_that_declare_no_class_say_so() -> None:
    old = results(whole(review=None))
    assert "declare no class" in coverage(old)[0].remark
    assert [check.id for check in unclassified(old)] == ["membership.provider"]


def test_every_attack_of_this_package_declares_its_class() -> None:
    specs = [spec for attack in ATTACKS.installed().values() for spec in attack.specs]
    ours = [spec for spec in specs if not spec.id.startswith(("echo.", "norms.", "lengths.", "raising."))]
    assert [spec.id for spec in ours if spec.review is None] == ["membership.blind"]  # a baseline, and no attack


def test_the_ratio_of_documents_to_parameters_is_the_training_records() -> None:
    base = full()
    assert "checkpoint states none" in documentation(base)[2].added
    target = base.target.model_copy(update={"parameters": 1000, "training_claim": {"data": {"documents": 10}}})
    assert "one document for 100 parameters" in documentation(base.model_copy(update={"target": target}))[2].supplied


def test_the_report_says_that_it_determines_nothing(tmp_path: Path) -> None:
    assert DISCLAIMER in to_html(full(), tmp_path)
