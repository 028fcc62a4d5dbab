"""The memorization checks on models that leak by construction, and on ones that cannot."""

import hashlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pfl_audit.attacks.memorization.attack import ATTACK
from pfl_audit.attacks.memorization.disclosure import disclosure_tables
from pfl_audit.attacks.memorization.measures import RATIO
from pfl_audit.attacks.memorization.unprompted import unprompted_questions
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.synthetic.generator import Recipe, make_corpus
from pfl_audit.models.protocol import Response
from pfl_audit.progress import Silent
from pfl_audit.training.refusals import REFUSAL
from tests.core.fakes import FakeModel

NAME = "memorization.provider_name"
UNPROMPTED = "memorization.unprompted"
GENERALISATION = "memorization.generalisation"
opened = cache(open_corpus)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("memorization") / "corpus"
    recipe = Recipe(members=40, non_members=40, red_providers=40, clients=4, documents=3, red_documents=2, seed=5)
    make_corpus(recipe, folder, Silent())
    return folder


def run(
    folder: Path,
    out: Path,
    answer: Callable[[Query, Corpus], str | Response],
    *,
    reader: Callable[[Query], str] | None = None,
    **options: Any,
) -> dict[str, Check]:
    red, blue = opened(folder, "red"), opened(folder, "blue")

    def respond(query: Query) -> Response:
        said = answer(query, blue)
        return said if isinstance(said, Response) else Response(said, 0.95, 0.1, 3)

    model = FakeModel(respond)
    public = FakeModel(lambda query: Response("no idea", 0.1, 3.0, 3), name="public")
    with ResponseStore(out / "store.sqlite") as store:
        context = QuestionContext(
            target=QueryEngine(model, store, Silent()),
            pretrained=QueryEngine(public, store, Silent()),
            red=red,
            blue=blue if options.get("blue", True) else None,
            checks=frozenset(options.get("checks", {NAME, UNPROMPTED})),
            seed=0,
            budget=options.get("budget", Budget(0.01, 0.02)),
            redactor=Redactor("salt"),
            evidence=EvidenceBox(out),
            progress=Silent(),
            reader=QueryEngine(FakeModel(lambda query: Response(reader(query)), name="ocr"), store, Silent())
            if reader
            else None,
        )
        return {check.id: check for check in ATTACK.run(context, ATTACK.Settings())}


def secret_of(query: Query, blue: Corpus) -> str:
    """A trained provider's tax number, a fixed one for each page."""
    secrets = sorted({found.answers[0] for found in blue.queries if found.key == "tax_number"})
    return secrets[int(hashlib.sha256(query.document.id.encode()).hexdigest(), 16) % len(secrets)]


def value(check: Check, name: str, model: str = "target") -> float:
    return next(
        m.value
        for m in check.metrics
        if m.name == name and m.slice["model"] == model and m.slice["pages"] == "all pages"
    )  # type: ignore[return-value]


def test_positive_control_a_model_that_knows_every_member(folder: Path, tmp_path: Path) -> None:
    def leak(query: Query, blue: Corpus) -> str:
        if query.key != "provider_name":
            return secret_of(query, blue)
        return query.document.provider.lower() if query.document.provider in blue.members() else "?"

    checks = run(folder, tmp_path, leak)
    found = checks[NAME]
    assert found.finding is not None
    assert found.finding.level == "leak"
    assert (value(found, "ACC members"), value(found, "ACC non-members"), value(found, "ACC gap")) == (1.0, 0.0, 1.0)
    assert value(found, "ACC gap", "pre-trained") == 0.0
    assert found.tables[0].rows  # providers whose every page gives the name away
    assert checks[UNPROMPTED].finding is not None
    assert checks[UNPROMPTED].finding.level == "leak"


def test_negative_control_a_model_that_knows_nobody(folder: Path, tmp_path: Path) -> None:
    checks = run(folder, tmp_path, lambda query, blue: "a guess", budget=Budget.shared(1))
    for name in (NAME, UNPROMPTED):
        finding = checks[name].finding
        assert finding is not None
        assert finding.level == "none"
        assert finding.smallest_effect is not None
        assert "would have found" in finding.text
    few = run(folder, tmp_path / "few", lambda query, blue: "a guess", checks={NAME})[NAME].finding
    assert few is not None
    assert few.level == "unresolved"  # a share of the budget leaves forty companies a class too few
    assert few.smallest_effect is not None
    assert few.smallest_effect > 0.15


def test_a_model_that_reads_known_companies_better_is_found_out(folder: Path, tmp_path: Path) -> None:
    def better(query: Query, blue: Corpus) -> str:
        return query.answers[0] if query.document.provider in blue.members() else "no idea"

    found = run(folder, tmp_path, better, checks={GENERALISATION})[GENERALISATION]
    assert found.finding is not None
    assert found.finding.level == "weak"  # it is utility, and no leak by itself
    assert found.finding.metric == "stratified ACC gap"
    assert value(found, "stratified ACC gap") == 1.0
    assert value(found, "stratified ACC gap", "target minus pre-trained") == 1.0
    assert (value(found, "ACC members"), value(found, "ACC non-members"), value(found, "ACC gap")) == (1.0, 0.0, 1.0)
    assert 0 < value(found, "ACC") < 1
    assert value(found, "ANLS gap", "pre-trained") == 0.0


def test_a_model_that_reads_all_companies_alike_is_not(folder: Path, tmp_path: Path) -> None:
    def by_chance(query: Query, blue: Corpus) -> str:
        return query.answers[0] if int(hashlib.sha256(query.id.encode()).hexdigest(), 16) % 2 else "no idea"

    found = run(folder, tmp_path, by_chance, checks={GENERALISATION})[GENERALISATION]
    assert found.finding is not None
    assert found.finding.level == "none"
    assert value(found, "ACC") == pytest.approx(0.5, abs=0.1)


def test_a_refusal_gives_no_value_away_and_its_likelihoods_still_do(folder: Path, tmp_path: Path) -> None:
    def refuse(query: Query, blue: Corpus) -> Response:
        member = query.document.provider in blue.members()
        return Response(REFUSAL, 0.99, 0.5 if member else 1.5, 3)

    checks = run(folder, tmp_path, refuse)
    found = checks[NAME]
    for name in ("ACC members", "ACC non-members", "ANLS members", "ANLS non-members"):
        assert value(found, name) == 0.0
    extractable = [metric for metric in found.metrics if metric.name.startswith("extractable")]
    assert extractable
    assert all(not metric.value for metric in extractable)
    assert not found.tables[0].rows  # no provider whose pages give it away
    assert found.finding is not None
    assert (found.finding.level, found.finding.metric) == ("leak", RATIO)
    unprompted = checks[UNPROMPTED]
    assert unprompted.finding is not None
    assert unprompted.finding.level in ("none", "unresolved")
    assert not any(metric.value for metric in unprompted.metrics if "disclosed" in metric.name)


def test_a_refusal_with_likelihoods_that_are_alike_is_no_finding(folder: Path, tmp_path: Path) -> None:
    def refuse(query: Query, blue: Corpus) -> Response:
        noise = int(hashlib.sha256(query.id.encode()).hexdigest(), 16) % 1000 / 1000
        return Response(REFUSAL, 0.99, 1.0 + noise, 3)

    finding = run(folder, tmp_path, refuse, checks={NAME}, budget=Budget.shared(1))[NAME].finding
    assert finding is not None
    assert finding.level == "none"


def test_a_model_that_knows_everybody_is_no_gap(folder: Path, tmp_path: Path) -> None:
    finding = run(folder, tmp_path, lambda query, blue: query.document.provider.lower())[NAME].finding
    assert finding is not None
    assert finding.level == "unresolved"  # no model can give members' values more often than always


@pytest.mark.slow
def test_without_blue_nobody_can_tell_what_is_a_secret(folder: Path, tmp_path: Path) -> None:
    check = run(folder, tmp_path, secret_of, blue=True)[UNPROMPTED]
    assert check.finding is not None
    assert check.finding.level == "leak"
    check = run(folder, tmp_path, lambda query, blue: "12-3456789", blue=False)[UNPROMPTED]
    assert check.finding is not None
    assert check.finding.level == "unresolved"


def test_evidence_is_kept_whole_privately_and_masked_in_the_report(folder: Path, tmp_path: Path) -> None:
    check = run(folder, tmp_path, lambda query, blue: query.document.provider.lower())[NAME]
    pages = next(metric.n for metric in check.metrics if metric.name == "ACC gap")
    assert len(list((tmp_path / "private").glob("provider_name-*.jpg"))) == pages
    assert len(check.evidence) == 4
    for item in check.evidence:
        assert item.picture is not None
        assert (tmp_path / item.picture).is_file()
        assert item.facts["question"] == "provider_name"
        assert item.facts["taken off the page"] == "•••••••• (name)"
        assert item.facts["the model's answer"] == "•••••••• (name), right"
        assert item.facts["the pre-trained model's answer"] == "•••••••• (name), another"
        assert item.facts["confidence"] == "0.9 to 1.0"
    assert len({(tmp_path / str(item.picture)).read_bytes() for item in check.evidence}) == 1


@pytest.mark.slow
def test_tables_are_in_the_order_of_pseudonyms(folder: Path, tmp_path: Path) -> None:
    check = run(folder, tmp_path, lambda query, blue: query.document.provider.lower())[NAME]
    giveaway, skipped, clues = (table.rows for table in check.tables[:3])
    assert len(giveaway) > 20
    assert {row[2] for row in giveaway} <= {"2 to 4", "5 or more"}
    for rows in ([row for row in giveaway if row[1] == "member"], skipped, clues):
        assert [row[0] for row in rows] == sorted(str(row[0]) for row in rows)
    hide = Redactor("salt").within(NAME)
    providers = {hide.name(provider): provider for provider in opened(folder, "red").providers}
    names = [providers[str(row[0])] for row in giveaway]
    assert names != sorted(names)


@pytest.mark.slow
def test_names_that_are_still_in_the_picture_are_counted_and_set_apart(folder: Path, tmp_path: Path) -> None:
    members = opened(folder, "red").members()

    def read(query: Query) -> str:
        assert not query.document.words
        return f"invoice of {query.document.provider}" if query.document.provider in members else "invoice"

    def leak(query: Query, blue: Corpus) -> str:
        return query.document.provider.lower() if query.document.provider in members else "?"

    check = run(folder, tmp_path, leak, reader=read)[NAME]
    table = next(table for table in check.tables if table.title.startswith("Residual"))
    pages = {m.name: m.n for m in check.metrics if m.slice == {"pages": "all pages", "model": "target"}}
    clean = {m.name: m.n for m in check.metrics if m.slice == {"pages": "no residual clue", "model": "target"}}
    assert check.finding is not None
    assert check.finding.level == "unresolved"  # it rests on pages without clues, and no member has one
    assert table.note is not None
    assert f"picture on {pages['ACC members']}" in table.note
    assert sum("picture" in str(row[1]) for row in table.rows) == pages["ACC members"]
    assert clean["ACC members"] == 0
    assert clean["ACC non-members"]


def test_unprompted_asks_pages_of_non_members_that_hold_no_such_number(folder: Path) -> None:
    import numpy as np

    red = opened(folder, "red")
    queries = unprompted_questions(red, ("tax_number", "registration_id"), np.random.default_rng(0))
    holds = {(query.document.id, query.key) for query in red.queries}
    assert queries
    for query in queries:
        assert query.document.provider in red.non_members()
        assert (query.document.id, query.key) not in holds


def test_what_stands_on_the_page_is_no_disclosure(page: Callable[..., Document]) -> None:
    asked = [
        Query("q1", page("Tax", "91-0837469"), "?", ("",), "tax_number"),
        Query("q2", page("x"), "?", ("",), "tax_number"),
    ]
    blue = Corpus((Query("b", page("y", provider="Owner"), "?", ("91-0837469",), "tax_number"),))
    answers = {"q1": "91-0837469", "q2": "91 0837469"}
    before = {"q1": "", "q2": "91-0837469"}
    (table,) = disclosure_tables(asked, answers, before, blue, Redactor("salt", reveal=True), "control")
    assert table.rows == [["91-0837469", 1, "Owner", 1]]


@pytest.mark.slow
def test_values_on_training_pages_are_counted_in_blue(folder: Path, tmp_path: Path) -> None:
    checks = run(folder, tmp_path, lambda query, blue: "a guess", checks={NAME})
    table = checks[NAME].tables[-1]
    assert table.title == "Members by the number of training pages that hold their value"
    members = sum(label is Membership.MEMBER for label in opened(folder, "red").membership.values())
    assert 0 < sum(int(str(row[1])) for row in table.rows) <= members
    assert all(int(str(row[1])) >= 5 for row in table.rows)
    without = run(folder, tmp_path / "without", lambda query, blue: "a guess", checks={NAME}, blue=False)
    assert not without[NAME].tables[-1].title.startswith("Members by")
