"""The whole family on models that leak by construction, and on pages that are unlike in themselves."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import numpy as np
import pytest

from pfl_audit.attacks.membership import rows, run
from pfl_audit.attacks.membership.attack import ATTACK
from pfl_audit.attacks.membership.rows import ROWS, AttackRow
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check
from pfl_audit.core.settings import Settings
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Membership, Query
from pfl_audit.models.protocol import Response
from pfl_audit.progress import Silent
from pfl_audit.registry import ExtensionWarning
from tests.core.fakes import FakeModel

CHECKS = frozenset({"membership.provider", "membership.blind", "membership.azk", "membership.likelihood-ratio"})
Knows = Callable[[Query], bool]


def corpus(*, key_tells: bool = False) -> Corpus:
    """Sixty members and sixty others, two pages each with three questions; the keys tell the classes apart, or not."""
    rng = np.random.default_rng(0)
    queries, membership = [], {}
    for number in range(120):
        provider = f"company {number:03d}"
        membership[provider] = Membership.MEMBER if number % 2 else Membership.NON_MEMBER
        for page in range(2):
            words = tuple(rng.choice(["total", "invoice", "pay", "due", "thanks", "net"], size=12))
            boxes = np.tile([[0.1, 0.1, 0.2, 0.2]], (12, 1))
            document = Document(f"{number:03d}{page}_1", provider, words, boxes, None, "red_test")
            for at in range(3):
                member = membership[provider] is Membership.MEMBER
                easy = member if key_tells else bool(rng.random() < 0.5)
                key = "payment_terms" if easy and at == 0 else "total_amount"
                queries.append(Query(f"{document.id}-{at}", document, "?", (f"value {at}",), key))
    return Corpus(tuple(queries), membership, "jsonl")


def chance(query: Query, of: float) -> bool:
    """The same for the same query, whoever asks."""
    return int(hashlib.sha256(query.id.encode()).hexdigest(), 16) % 1000 < 1000 * of


def model(name: str, knows: Knows) -> FakeModel:
    def answer(query: Query) -> Response:
        right = knows(query)
        said = query.answers[0] if right and query.answers[0] else "something else"
        return Response(said, 0.9 if right else 0.4, 0.2 if right else 2.0, 3)

    return FakeModel(answer, name=name)


def audited(
    folder: Path,
    red: Corpus,
    target: Knows,
    *,
    pretrained: Knows | None = None,
    control: Knows | None = None,
    classes_random: Literal["units", "groups"] | None = None,
    checks: frozenset[str] = CHECKS,
) -> dict[str, Check]:
    with ResponseStore(folder / "store.sqlite") as store:

        def engine(name: str, knows: Knows | None) -> QueryEngine | None:
            return None if knows is None else QueryEngine(model(name, knows), store, Silent())

        asked = engine("target", target)
        assert asked is not None
        context = QuestionContext(
            target=asked,
            pretrained=engine("pre-trained", pretrained),
            control=engine("control", control),
            classes_random=classes_random,
            red=red,
            blue=None,
            checks=checks if pretrained else checks - {"membership.likelihood-ratio"},
            seed=0,
            budget=Budget(0.01, 0.02),
            redactor=Redactor("salt"),
            evidence=EvidenceBox(folder),
            progress=Silent(),
        )
        settings = ATTACK.Settings(s=(0, 5), seeds=2)
        return {check.id: check for check in ATTACK.run(context, settings)}


def level(found: dict[str, Check]) -> str:
    finding = found["membership.provider"].finding
    assert finding is not None
    return finding.level


def some(query: Query) -> bool:
    return chance(query, 0.3)


@pytest.fixture
def memory() -> tuple[Corpus, Knows]:
    red = corpus()

    def knows(query: Query) -> bool:
        return chance(query, 0.8 if red.label(query.document.provider) is Membership.MEMBER else 0.3)

    return red, knows


@pytest.fixture
def reading() -> tuple[Corpus, Knows]:
    """Members are asked for payment terms, which every model reads."""
    return corpus(key_tells=True), lambda query: query.key == "payment_terms" or chance(query, 0.3)


def test_positive_control_a_model_that_knows_members_leaks(memory: tuple[Corpus, Knows], tmp_path: Path) -> None:
    red, knows = memory
    found = audited(tmp_path, red, knows, pretrained=some, control=some)
    assert set(found) == CHECKS
    assert level(found) == "leak"
    # A control that knows members as well: it is not training on them that shows.
    (tmp_path / "other").mkdir()
    assert level(audited(tmp_path / "other", red, knows, pretrained=some, control=knows)) in ("none", "unresolved")
    parts = {name: check for name, check in found.items() if name != "membership.provider"}
    assert all(check.finding is None and check.part_of == "membership.provider" for check in parts.values())
    assert {metric.slice["model"] for metric in found["membership.azk"].metrics} == {"target", "control"}


def test_an_attack_of_another_package_that_fails_stops_no_other(
    memory: tuple[Corpus, Knows], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for a feature that there is not."""
    broken = SimpleNamespace(name="broken", scores=print, Settings=Settings)
    monkeypatch.setattr(run, "PROVIDER_ATTACKS", SimpleNamespace(installed=lambda: {"broken": broken}))
    monkeypatch.setattr(run, "every_row", lambda: (AttackRow("broken", "Broken", "external", ("mood",), "ZK+U"), *ROWS))
    red, knows = memory
    found = audited(tmp_path, red, knows, control=some, checks=CHECKS | {"membership.broken"})
    assert (found["membership.broken"].status, found["membership.azk"].status) == ("skipped", "ran")
    assert "none of mood" in (found["membership.broken"].reason or "")
    assert level(found) == "leak"


@pytest.mark.parametrize(("name", "knowledge"), [("azk", "ZK+U"), ("other", "everything")])
def test_an_attack_that_cannot_be_named_or_judged_is_left_out(
    name: str, knowledge: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = SimpleNamespace(name=name, title="", features=("acc",), knowledge=knowledge)
    monkeypatch.setattr(rows, "PROVIDER_ATTACKS", SimpleNamespace(installed=lambda: {name: given}))
    with pytest.warns(ExtensionWarning, match=f"'{name}' is left out"):
        assert rows._external.__wrapped__() == ()


def test_an_unexposed_model_is_not_condemned_for_easier_pages(reading: tuple[Corpus, Knows], tmp_path: Path) -> None:
    red, reads = reading
    found = audited(tmp_path, red, reads, pretrained=reads)
    azk = next(m for m in found["membership.azk"].metrics if m.name == "balanced accuracy" and m.slice["s"] == 5)
    assert azk.ci is not None
    assert azk.ci[0] > 0.6
    assert level(found) == "unresolved"


def test_the_documents_alone_speak_where_no_control_does(reading: tuple[Corpus, Knows], tmp_path: Path) -> None:
    """The user declares what is not so, and the pre-trained model reads nothing: the keys asked tell as much."""
    red, reads = reading
    for pretrained in (None, lambda query: False):
        found = audited(tmp_path, red, reads, pretrained=pretrained, classes_random="units")
        assert level(found) == "unresolved"


def test_without_a_control_it_takes_a_declaration(memory: tuple[Corpus, Knows], tmp_path: Path) -> None:
    red, knows = memory
    assert level(audited(tmp_path, red, knows)) == "unresolved"
    assert level(audited(tmp_path, red, knows, classes_random="units")) == "leak"


def test_negative_control_a_model_that_knows_no_company_better(tmp_path: Path) -> None:
    assert level(audited(tmp_path, corpus(), some, pretrained=lambda query: False)) in ("none", "unresolved")


def test_infinite_and_missing_losses_are_no_obstacle(memory: tuple[Corpus, Knows], tmp_path: Path) -> None:
    red, knows = memory
    losses = iter([float("inf"), float("nan"), 0.5] * 10_000)

    class Odd(FakeModel):
        def respond(self, queries):  # type: ignore[no-untyped-def]
            return [Response(one.answer, 0.5, next(losses), 3) for one in super().respond(queries)]

    plain = model("odd", knows)
    with ResponseStore(tmp_path / "store.sqlite") as store:
        context = QuestionContext(
            target=QueryEngine(Odd(plain.answer, "odd"), store, Silent()),
            pretrained=QueryEngine(model("pre-trained", some), store, Silent()),
            red=red,
            blue=None,
            checks=CHECKS,
            seed=0,
            budget=Budget(0.01, 0.02),
            redactor=Redactor("salt"),
            evidence=EvidenceBox(tmp_path),
            progress=Silent(),
        )
        found = {check.id: check for check in ATTACK.run(context, ATTACK.Settings(s=(0,), seeds=1))}
    ratio = next(m for m in found["membership.likelihood-ratio"].metrics if m.name == "AUC")
    assert ratio.value is not None
    assert 0.3 < ratio.value < 0.7
