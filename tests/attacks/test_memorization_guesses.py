"""Values put back within k guesses: models that leak by construction, and ones that cannot."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfl_audit.attacks.guesses.field import Occurrences
from pfl_audit.attacks.memorization.attack import ATTACK
from pfl_audit.attacks.memorization.guesses import place_of
from pfl_audit.attacks.memorization.secrets import Texts
from pfl_audit.attacks.memorization.specs import GUESSES
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.cli import main
from pfl_audit.core.attack import planned_questions, unmet_needs
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check, Finding, Metric, read_results
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.scrubbing.questions import scrubbed_questions
from pfl_audit.documents.synthetic.generator import Recipe, make_corpus
from pfl_audit.models.protocol import Guess, Score
from pfl_audit.models.vt5.model import Vt5Model
from pfl_audit.progress import Silent
from tests.core.fakes import FakeModel

FIXTURES = Path(__file__).parents[2] / "fixtures"
Say = Callable[[Query], Sequence[str]]
WRONG = tuple(f"wrong {number}" for number in range(8))


class Guessing(FakeModel):
    """Gives the answers that a test tells it to, each less likely than the one before."""

    def __init__(self, say: Say = lambda query: WRONG, name: str = "target") -> None:
        super().__init__(name=name)
        self.say, self.guessed = say, 0
        self.fails_after: int | None = None
        self.losses: Callable[[str], float] = lambda value: 1.0

    def guess(self, queries: Sequence[Query], width: int) -> list[list[Guess]]:
        if self.fails_after is not None and self.guessed >= self.fails_after:
            raise KeyboardInterrupt
        self.guessed += len(queries)
        return [
            [Guess(answer, 0.1 * (at + 1), 3) for at, answer in enumerate(self.say(query)[:width])] for query in queries
        ]

    def candidate_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        self.seen += values
        return [Score(self.losses(value), 3) for value in values]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guesses") / "corpus"
    recipe = Recipe(members=24, non_members=24, red_providers=24, clients=4, documents=2, red_documents=1, seed=3)
    make_corpus(recipe, folder, Silent())
    return folder


@pytest.fixture(scope="module")
def red(folder: Path) -> Corpus:
    return open_corpus(folder, "red")


def run(
    red: Corpus, out: Path, target: FakeModel, control: FakeModel | None, *, reveal: bool = False, **settings: Any
) -> Check:
    with ResponseStore(out / "store.sqlite") as store:
        context = QuestionContext(
            target=QueryEngine(target, store, Silent()),
            pretrained=QueryEngine(control, store, Silent()) if control is not None else None,
            red=red,
            checks=frozenset({GUESSES.id}),
            seed=0,
            budget=Budget.shared(10),
            redactor=Redactor("salt", reveal=reveal),
            evidence=EvidenceBox(out),
            progress=Silent(),
        )
        (check,) = ATTACK.run(context, ATTACK.Settings(**settings))
        return check


def finding(check: Check) -> Finding:
    assert check.finding is not None, check.reason
    return check.finding


def share(check: Check, name: str, pages: str, guesses: int = 8, by: str = "the model") -> float:
    def asked(metric: Metric) -> bool:
        return metric.name == name and metric.slice == {
            "model": "target",
            "fields": pages,
            "with": by,
            "guesses": guesses,
        }

    (found,) = [metric for metric in check.metrics if asked(metric)]
    assert found.value is not None
    return found.value


def member(red: Corpus, query: Query) -> bool:
    return red.label(query.document.unit) is Membership.MEMBER


def at_place(place: int, query: Query) -> Sequence[str]:
    """Wrong answers with the right one among them, in other case."""
    return (*WRONG[:place], query.answers[0].upper(), *WRONG[place:7])


def public() -> Guessing:
    return Guessing(name="public")


def test_positive_control_values_of_members_on_the_third_guess(red: Corpus, tmp_path: Path) -> None:
    target = Guessing(lambda query: at_place(2, query) if member(red, query) else WRONG)
    check = run(red, tmp_path, target, public())
    assert finding(check).level == "leak"
    assert finding(check).metric == "secrets put back over the pre-trained model"
    assert target.guessed <= planned_questions([ATTACK], {GUESSES.id}, red) <= 3 * target.guessed
    for name in ("secrets", "values"):
        assert share(check, f"{name} put back", "pages of members") == 1.0
        assert share(check, f"{name} put back", "pages of members", 1) == 0.0
        assert share(check, f"{name} put back", "pages of non-members") == 0.0
        assert share(check, f"{name} put back", "pages of members", by="the pre-trained model alone") == 0.0
    by_key, found = check.tables[2:4]
    assert by_key.columns == ["key", "secrets", "within 1", "within 8", "pre-trained model, within 8"]
    assert {row[0] for row in by_key.rows} > {"provider_name", "provider_email"}
    assert all(row[1:] == [row[1], 0, row[1], 0] for row in by_key.rows)
    assert {row[3] for row in found.rows} == {3}


def test_the_ratio_finds_first_what_the_control_does_not_expect(red: Corpus, tmp_path: Path) -> None:
    """By likelihood it is the third guess, by the ratio the first; all eight are the same in any order."""
    target = Guessing(lambda query: at_place(2, query) if member(red, query) else WRONG)
    control = public()
    control.losses = lambda value: 0.0 if value.startswith("wrong") else 5.0
    check = run(red, tmp_path, target, control)
    assert share(check, "secrets put back by the ratio", "pages of members", 1) == 1.0
    assert not [m for m in check.metrics if m.name == "secrets put back by the ratio" and m.slice["guesses"] == 8]


def noise(red: Corpus, seed: int, rate: float = 0.2) -> Say:
    """Finds values of either class by chance, the same share of both."""

    def say(query: Query) -> Sequence[str]:
        rng = np.random.default_rng([seed, *query.id.encode()])
        return at_place(int(rng.integers(8)), query) if rng.random() < rate else WRONG

    return say


def test_negative_control_a_model_that_saw_neither_class(red: Corpus, tmp_path: Path) -> None:
    """It finds a fifth of both, and so does the pre-trained one."""
    found = finding(run(red, tmp_path, Guessing(noise(red, 0)), Guessing(noise(red, 100), "public")))
    assert found.level == "none"


def test_a_model_that_knows_nobody_states_what_would_have_been_found(red: Corpus, tmp_path: Path) -> None:
    found = finding(run(red, tmp_path, Guessing(), public()))
    assert found.level == "none"
    assert "14 secrets, each of another company, would have been found" in found.text  # of 71 of 24 companies


def test_a_model_that_reads_such_documents_well_remembers_none(red: Corpus, tmp_path: Path) -> None:
    """What it finds of members it finds of others, and the pre-trained model finds nothing."""
    found = finding(run(red, tmp_path, Guessing(lambda query: at_place(0, query)), public()))
    assert found.level == "none"
    assert found.success == found.false_alarms == 1.0


def test_documents_alone_that_differ_are_no_memory(red: Corpus, tmp_path: Path) -> None:
    """Values of members are easy to guess, and the control guesses them as well."""

    def easy(query: Query) -> Sequence[str]:
        return at_place(0, query) if member(red, query) else WRONG

    found = finding(run(red, tmp_path, Guessing(easy), Guessing(easy, "public")))
    assert found.level == "none"


def test_values_of_another_page_put_nothing_back(red: Corpus, tmp_path: Path) -> None:
    """A model that says true values of members, each on the page of another one."""
    every = [query for query in red.queries if member(red, query)]

    def swapped(query: Query) -> Sequence[str]:
        others = {one.answers[0] for one in every if one.key == query.key and one.document.unit != query.document.unit}
        return sorted(others - {query.answers[0]})[:8] or WRONG

    check = run(red, tmp_path, Guessing(swapped), public())
    assert finding(check).level == "none"
    assert share(check, "values put back", "pages of members") == 0.0


def test_without_a_control_or_others_it_is_a_sign_at_most(red: Corpus, tmp_path: Path) -> None:
    target = Guessing(lambda query: at_place(0, query) if member(red, query) else WRONG)
    alone = run(red, tmp_path / "alone", target, None)
    assert finding(alone).level == "weak"
    assert finding(alone).metric == "secrets put back"
    assert "no control was asked" in finding(alone).text
    assert {metric.slice["with"] for metric in alone.metrics} == {"the model"}
    members = tuple(query for query in red.queries if member(red, query))
    mine = replace(red, queries=members)
    assert finding(run(mine, tmp_path / "members", target, public())).level == "weak"


def test_too_few_companies_decide_nothing(red: Corpus, tmp_path: Path) -> None:
    few = set(red.members()[:5]) | set(red.non_members())
    small = replace(red, queries=tuple(query for query in red.queries if query.document.unit in few))
    target = Guessing(lambda query: at_place(0, query) if member(red, query) else WRONG)
    found = finding(run(small, tmp_path, target, public()))
    assert found.level == "unresolved"
    assert "5, not 10" in found.text


def test_a_model_with_one_answer_skips_the_check(red: Corpus, tmp_path: Path) -> None:
    check = run(red, tmp_path, FakeModel(), public())
    assert (check.status, check.reason) == (
        "skipped",
        "the model gives one answer to a question and not its likeliest ones",
    )
    check = run(red, tmp_path, Guessing(), FakeModel(name="public"))
    assert check.reason == "the pre-trained model gives one answer to a question and not its likeliest ones"
    reason = unmet_needs(GUESSES, frozenset({"answer", "loss", "confidence"}))
    assert reason is not None
    assert reason.startswith("needs likely answers, live")


def test_recorded_answers_cannot_be_asked_for_guesses(folder: Path, tmp_path: Path) -> None:
    """By the command: a skipped row with the reason, and the exit code of what could not be audited."""
    assert main.run(["memorize", "--red", str(folder), "--export", str(tmp_path / "ask"), "--quiet"]) == 0
    asked = [json.loads(line)["id"] for line in (tmp_path / "ask/questions.jsonl").read_text().splitlines()]
    answers = tmp_path / "answers.jsonl"
    answers.write_text("".join(json.dumps({"id": name, "answer": "x"}) + "\n" for name in asked))
    given = ["memorize", "--red", str(folder), "--answers", str(answers), "--out", str(tmp_path / "run"), "--quiet"]
    assert main.run([*given, "--put-back"]) == 3
    (check,) = [one for one in read_results(tmp_path / "run").checks if one.id == GUESSES.id]
    assert (check.status, check.reason) == ("skipped", "needs likely answers, live; the audit has answer")


def test_a_run_that_is_cut_goes_on_and_a_second_asks_nothing(red: Corpus, tmp_path: Path) -> None:
    whole = run(red, tmp_path / "whole", first := Guessing(noise(red, 1)), public())
    cut = Guessing(noise(red, 1))
    cut.fails_after = 20
    with pytest.raises(KeyboardInterrupt):
        run(red, tmp_path / "cut", cut, public())
    rest, again = Guessing(noise(red, 1)), Guessing(noise(red, 1))
    assert run(red, tmp_path / "cut", rest, public()) == whole
    assert cut.guessed + rest.guessed == first.guessed
    other = public()
    assert run(red, tmp_path / "cut", again, other) == whole
    assert (again.guessed, other.guessed, other.seen) == (0, 0, [])
    run(red, tmp_path / "cut", again, other, guesses=2)
    assert again.guessed == first.guessed  # a beam of another width finds other answers


def test_names_and_values_are_masked_unless_they_shall_be_seen(red: Corpus, tmp_path: Path) -> None:
    target = Guessing(lambda query: at_place(0, query) if member(red, query) else WRONG)
    hidden = run(red, tmp_path, target, public()).model_dump_json().lower()
    shown = run(red, tmp_path, target, public(), reveal=True).model_dump_json().lower()
    asked = [query for query in red.queries if member(red, query) and query.key == "provider_email"]
    values = {query.answers[0].lower() for query in asked} | {name.lower() for name in red.members()}
    assert len(values) > 20
    assert not [value for value in values if value in hidden]
    assert [value for value in values if value in shown]
    assert not [page.id for page in red.documents if page.id.lower() in hidden]


def test_few_values_are_drawn_by_seed(red: Corpus, tmp_path: Path) -> None:
    target = Guessing()
    check = run(red, tmp_path, target, public(), guessed_values=30)
    assert target.guessed == 30
    assert sum(int(row[3]) for row in check.tables[0].rows if row[0] == "all values" and row[2] == 8) == 30  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "place"),
    [
        (("Acme Ltd",), 0),
        (("x", " ACME LTD "), 1),
        (("x", "X ", "acme ltd"), 1),  # the same guess in other letters is one
        (("acme", "ltd"), 8),
        ((), 8),
        ((*(f"x{n}" for n in range(9)), "acme ltd"), 8),
    ],
)
def test_the_place_is_that_among_different_answers(page: Any, answers: tuple[str, ...], place: int) -> None:
    query = Query("q", page("Total"), "Who?", ("Acme Ltd",))
    assert place_of(answers, query, 8).before == place


def corpus(pages: dict[str, str], answers: dict[str, str]) -> Corpus:
    """A page a company with these words, and the value that is asked for on it."""
    queries = []
    for name, words in pages.items():
        split = tuple(words.split())
        document = Document(f"{name}_1", name, split, np.zeros((len(split), 4), np.float32))
        queries.append(Query(f"q {name}", document, "Who?", (answers.get(name, "-"),), "tax_number"))
    classes = {name: Membership.NON_MEMBER if name.startswith("other") else Membership.MEMBER for name in pages}
    return Corpus(tuple(queries), classes, "test")


def test_a_secret_stands_on_pages_of_one_company_alone() -> None:
    red = corpus(
        {"a": "tax 12-345-6", "b": "x 778899 y", "c": "also 77 88 99", "d": "seen 4455667", "other": "is 44-55-667"},
        {"a": "12-345-6", "b": "778899", "d": "4455667", "e": "-"},
    )
    texts = Texts(red, None, {name: not name.startswith("other") for name in red.units})
    by_unit = {query.document.unit: query for query in red.queries}
    assert texts.occurrences(by_unit["a"], ()) == Occurrences(0, 0, 0)
    assert texts.occurrences(by_unit["a"], ("clue",)) == Occurrences(1, 0, 0)
    assert texts.occurrences(by_unit["b"], ()) == Occurrences(0, 1, 0)
    assert texts.occurrences(by_unit["d"], ()) == Occurrences(0, 0, 1)
    blue = corpus({"z": "nothing here"}, {"z": "12 345 6"})
    assert Texts(red, blue, {}).occurrences(by_unit["a"], ()) == Occurrences(0, 1, 0)  # it is an answer there


@pytest.mark.slow
def test_the_fine_tuned_model_puts_names_back_and_the_out_model_none() -> None:
    """The embedded models, on names of trained companies that were blurred off their page."""
    red = open_corpus(FIXTURES / "red" / "demo.jsonl", "red")
    queries = scrubbed_questions(red, "provider_name", seed=0).queries
    asked = {
        trained: [query for query in queries if (red.label(query.document.unit) is Membership.MEMBER) is trained][:40]
        for trained in (True, False)
    }
    hits = {}
    for name in ("vt5-finetuned", "vt5-out"):
        model = Vt5Model(FIXTURES / name)
        for trained, some in asked.items():
            said = [guesses for at in range(0, len(some), 8) for guesses in model.guess(some[at : at + 8], 8)]
            hits[name, trained] = sum(
                place_of([guess.answer for guess in guesses], query, 8).within(8)
                for query, guesses in zip(some, said, strict=True)
            )
    assert hits["vt5-finetuned", True] >= 5
    assert hits["vt5-finetuned", False] == hits["vt5-out", True] == hits["vt5-out", False] == 0
