"""Page one: headline, natural frequencies, risks, remedies once each, what was not tested."""

from pathlib import Path

import pytest

from pfl_audit.core.audit_verdict import audited
from pfl_audit.core.results import Data, Results
from pfl_audit.reports.html import to_html
from pfl_audit.reports.page_one import page_one, spans
from pfl_audit.reports.view import arrange
from tests.reports.sample import found, full, memory, part, skipped, whole
from tests.reports.test_html import results


def of(subject: str, **more: object) -> Data:
    return Data(subject=subject, format="", path="", sha256="", documents=1, queries=1, **more)  # type: ignore[arg-type]


def audit_of(subject: str, **more: object) -> Results:
    base = results(whole(subject=subject))
    return base.model_copy(update={"datasets": [of(subject, **more)]})


@pytest.mark.parametrize(
    ("name", "embedded", "headline"),
    [
        ("the model", False, "The model gives away training data"),
        ("the form encoder", False, "The form encoder gives away training data"),
        ("the protocol of updates", False, "The protocol of updates gives away training data"),
        ("the model", True, "The embedded demonstration model gives away training data"),
        ("the form encoder", True, "The embedded demonstration form encoder gives away training data"),
        (
            "the protocol of updates",
            True,
            "The protocol of updates of the embedded demonstration model gives away training data",
        ),
    ],
)
def test_the_headline_is_true_to_its_subject(name: str, embedded: bool, headline: str) -> None:
    base = audit_of("subject", audited=name)
    target = base.target.model_copy(update={"demonstration": embedded})
    assert page_one(base.model_copy(update={"target": target})).headline == headline


@pytest.mark.parametrize(
    ("level", "obtains", "begins"),
    [
        ("weak", "membership", "Signs, but no proof, that the model"),
        ("weak", "utility", "No evidence that the model"),
        ("none", "membership", "No evidence that the model"),
    ],
)
def test_a_weak_sign_is_not_headed_as_no_evidence(level: str, obtains: str, begins: str) -> None:
    check = whole(subject="pages")
    assert check.review is not None
    review = check.review.model_copy(update={"obtains": obtains})
    made = results(check.model_copy(update={"finding": found(level=level), "review": review}))
    verdict = made.verdict.model_copy(update={"status": "no-evidence"})
    assert page_one(made.model_copy(update={"verdict": verdict})).headline.startswith(begins)


def test_a_caveat_of_the_subject_stands_below_the_headline(tmp_path: Path) -> None:
    html = to_html(audit_of("gradients", caveat="It says nothing about the finished model."), tmp_path)
    assert html.index("It says nothing about the finished model.") < html.index("1. What was audited")


def test_only_what_leaks_is_named() -> None:
    checks = [whole(subject="pages")]
    datasets = [of("pages", audited="the model"), of("gradients", audited="the protocol of updates")]
    assert audited(datasets, checks) == "the model"
    assert audited(datasets, []) == "the model and the protocol of updates"


@pytest.mark.parametrize(
    ("release", "said"),
    [
        (None, "Not declared"),
        ("public-api", "declared: public interface"),
        ("internal", "declared: internal use"),
        ("open-weights", "declared: open weights"),
    ],
)
def test_the_release_is_what_the_user_declares(release: str | None, said: str, tmp_path: Path) -> None:
    assert said in to_html(full(release=release), tmp_path)


def test_no_line_ends_inside_the_name_of_an_option(tmp_path: Path) -> None:
    assert '<span class="option">--release</span>' in to_html(full(release=None), tmp_path)


def test_each_remedy_comes_once_those_against_most_leaks_first() -> None:
    remedies = page_one(full()).remedies
    assert [one.text for one in remedies] == ["Train privately.", "Give no scores.", "Mask values."]
    assert remedies[0].against == ("A", "B")


def test_what_is_unresolved_asks_for_more_documents(tmp_path: Path) -> None:
    html = to_html(results(whole(finding=found("unresolved"))), tmp_path)
    assert "Unresolved: A. Before these are relied on, audit again" in html
    assert "Unresolved: A" not in to_html(full(release=None), tmp_path)


def test_a_finding_of_an_earlier_version_is_told_in_its_own_words() -> None:
    old = found(plain=None, remedies=[], success=None, false_alarms=None)
    page = page_one(results(whole(finding=old, review=None)))
    assert page.findings[0].sentence == old.text
    assert [one.text for one in page.remedies] == [old.remedy]
    assert page.findings[0].risk.severity is None


def test_what_was_not_tested_has_its_reason_and_classes_without_a_check_are_named() -> None:
    page = page_one(full())
    assert [(one.titles, one.reason) for one in page.missing] == [("Reconstruction", "needs forms")]
    assert page.not_run == 1
    assert [name for name, _ in page.uncovered] == ["exfiltration", "model inversion", "reconstruction"]
    assert len(page_one(results(whole(review=None))).uncovered) == 2  # out of scope, and not declared


def test_one_section_a_question_and_parts_stand_with_their_whole() -> None:
    sections = arrange(results(part(), memory(), whole(), skipped())).sections
    assert [len(one.figures) for one in sections] == [2, 0]  # ROC, and accuracy against s of the strongest attack
    assert [len(one.tables) for one in sections] == [1, 0]
    assert [len(one.rows) for one in sections] == [0, 1]
    assert sections[1].evidence


def test_what_a_section_shows_is_not_in_the_annex_again(tmp_path: Path) -> None:
    html = to_html(full(), tmp_path)
    assert html.count("<figcaption>Attacks</figcaption>") == 1
    assert html.count("<strong>ROC</strong>") == 1


def test_the_demonstration_is_named_wherever_its_numbers_stand(tmp_path: Path) -> None:
    base = full()
    shown = base.model_copy(update={"target": base.target.model_copy(update={"demonstration": True})})
    html = to_html(shown, tmp_path)
    assert html.count("(embedded demonstration model)") >= html.count('class="chart"')
    assert "demonstration" not in to_html(base, tmp_path)


def test_page_one_says_how_many_findings_there_are(tmp_path: Path) -> None:
    made = full()
    page = to_html(made, tmp_path).partition("<h2>1. What was audited")[0]
    assert made.verdict.summary
    assert made.verdict.summary in page


@pytest.mark.parametrize(
    ("letters", "shown"),
    [
        ([], []),
        (["A", "B", "C"], ["A", "B", "C"]),
        (["A", "B", "C", "D", "F"], ["A–D", "F"]),
        (["X", "Y", "Z", "F27", "F28", "F30"], ["X–F28", "F30"]),
        (["F", "F27"], ["F", "F27"]),
    ],
)
def test_many_findings_are_named_as_a_span(letters: list[str], shown: list[str]) -> None:
    assert spans(letters) == shown


def test_unresolved_findings_are_one_line() -> None:
    checks = [whole(id=f"membership.{at}", title=f"Attack {at}", finding=found(level="unresolved")) for at in range(6)]
    (missing,) = page_one(results(*checks)).missing
    assert missing.titles == "Attack 0, Attack 1, Attack 2, Attack 3 and 2 more"
    assert missing.reason == "nothing can be said; see A–F"
