"""Document membership by optimisation: the arithmetic against an oracle, and models that memorise by construction."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from pfl_audit.attacks.docmia import optimise
from pfl_audit.attacks.docmia import run as docmia
from pfl_audit.attacks.docmia.attack import ATTACK
from pfl_audit.attacks.docmia.optimise import COLUMNS, HeldOpening, optimise_documents, travel_on
from pfl_audit.attacks.docmia.run import score
from pfl_audit.attacks.docmia.specs import PARTS, PROXY, WHOLE, DocmiaSettings
from pfl_audit.attacks.docmia.travel import last_matrices, travel
from pfl_audit.attacks.questions import trained_control
from pfl_audit.attacks.questions.context import QuestionContext
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.attacks.questions.subject import SUBJECT
from pfl_audit.core.attack import unmet_needs
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check
from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.sides import join_sides, regroup
from pfl_audit.documents.units import DOCUMENT
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.models.processes import Processes
from pfl_audit.models.protocol import Capability
from pfl_audit.progress import Silent
from tests.core.fakes import FakeModel
from tests.oracles.docmia import travel as slow_travel

WIDTH, CLASSES = 150, 5


def documents(count: int, seed: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Documents of three questions each, with random inputs and random answers: nothing but memory gives them."""
    rng = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(3, WIDTH, generator=rng, dtype=torch.float64),
            torch.randint(CLASSES, (3,), generator=rng),
        )
        for _ in range(count)
    ]


def travelled(network: nn.Linear, pages: list[tuple[torch.Tensor, torch.Tensor]]) -> pd.DataFrame:
    """The optimisation of a network on every document."""
    rows = []
    for inputs, labels in pages:
        loss = partial(lambda x, y: nn.functional.cross_entropy(network(x), y), inputs, labels)
        one = travel(loss, [network.weight], 0.5, 20, 0.01)
        rows.append((one.distance, one.steps, one.before, one.after))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(np.float64)


def linear(seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(WIDTH, CLASSES, bias=False, dtype=torch.float64)


def trained(pages: list[tuple[torch.Tensor, torch.Tensor]]) -> nn.Linear:
    """A network that has seen the documents often."""
    network = linear()
    inputs, labels = torch.cat([x for x, _ in pages]), torch.cat([y for _, y in pages])
    optimiser = torch.optim.Adam(network.parameters(), 0.05)
    for _ in range(300):
        optimiser.zero_grad()
        nn.functional.cross_entropy(network(inputs), labels).backward()
        optimiser.step()
    return network


@pytest.mark.parametrize(("rate", "most", "tolerance"), [(0.5, 20, 0.01), (0.1, 3, 0.0), (2.0, 1, 0.5)])
def test_the_descent_is_that_of_the_oracle_and_leaves_the_weights_alone(
    rate: float, most: int, tolerance: float
) -> None:
    network = linear()
    start = network.weight.detach().clone()
    for inputs, labels in documents(4, seed=1):
        loss = partial(lambda x, y: nn.functional.cross_entropy(network(x), y), inputs, labels)
        fast = travel(loss, [network.weight], rate, most, tolerance)
        slow = slow_travel(start.T.numpy(), inputs.numpy(), labels.tolist(), rate, most, tolerance)
        assert (fast.distance, fast.before, fast.after) == pytest.approx((slow[0], slow[2], slow[3]), abs=1e-9)
        assert fast.steps == slow[1]
        assert torch.equal(network.weight, start)


def test_the_weights_are_put_back_after_an_error() -> None:
    network, calls = linear(), iter((True, False))
    start = network.weight.detach().clone()

    def loss() -> torch.Tensor:
        if not next(calls):
            raise RuntimeError("out of memory")
        return network.weight.square().sum()

    with pytest.raises(RuntimeError):
        travel(loss, [network.weight], 0.1, 5, 0.0)
    assert torch.equal(network.weight, start)


def test_the_last_matrices_of_the_decoder_move_and_nothing_else() -> None:
    network = nn.ModuleDict(
        {
            "encoder": nn.Linear(2, 2),
            "decoder": nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
            "boxes": nn.Linear(2, 2),
        }
    )
    chosen = last_matrices(network, lambda name: False, 1)
    assert [name for name, one in network.named_parameters() if one.requires_grad] == ["decoder.1.weight"]
    assert chosen == [network["decoder"][1].weight]  # type: ignore[index]
    assert len(last_matrices(network, lambda name: "decoder" in name, 5)) == 2


def corpus(members: int, others: int) -> Corpus:
    def side(name: str, count: int) -> Corpus:
        rng = np.random.default_rng(count + len(name))
        queries = []
        for number in range(count):
            words = (*rng.choice(["total", "pay", "due", "net"], size=8), f"n{2 * number + (name == 'out')}")
            boxes = np.tile(np.float32([0.1, 0.1, 0.2, 0.2]), (len(words), 1))
            page = Document(f"{name}{number:03d}_1", f"company {number % 9}", words, boxes)
            queries += [Query(f"{page.id}?{at}", page, "?", ("x",)) for at in range(5)]
        return Corpus(tuple(queries))

    return join_sides(side("in", members), side("out", others), DOCUMENT)


def audited(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    table: pd.DataFrame,
    members: int,
    control: pd.DataFrame | None = None,
    **given: Any,
) -> dict[str, Check]:
    """The checks of a table of documents, members first.

    Args:
        given: Other weights, checks or ``optimise_documents`` than those of the tables.
    """
    red = corpus(members, len(table) - members)
    tables = {"target": table, "control": control}

    def optimised(checkpoint: Path, *_: object) -> pd.DataFrame:
        found = tables[checkpoint.name]
        assert found is not None
        return found.set_axis(sorted(red.units))

    monkeypatch.setattr(docmia, "optimise_documents", given.get("optimised", optimised))
    with ResponseStore(folder / "store.sqlite") as store:
        target, control_model, before = (
            QueryEngine(FakeModel(name=name), store, Silent()) for name in ("target", "control", "pre-trained")
        )
        context = QuestionContext(
            target=target,
            control=control_model if control is not None else None,
            pretrained=before,
            red=red,
            weights=given.get("weights", {name: Path(name) for name, one in tables.items() if one is not None}),
            records=Records(store),
            classes_random="units" if control is None else None,
            checks=given.get("checks", frozenset(spec.id for spec in ATTACK.specs) - {PROXY.id}),
            seed=0,
            budget=Budget(0.01, 0.02),
            redactor=Redactor("salt"),
            evidence=EvidenceBox(folder),
            progress=Silent(),
        )
        return {check.id: check for check in ATTACK.run(context, DocmiaSettings())}


def level(found: dict[str, Check]) -> str:
    finding = found[WHOLE.id].finding
    assert finding is not None
    return finding.level


Audited = Callable[..., dict[str, Check]]


@pytest.fixture
def judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Audited:
    return partial(audited, tmp_path, monkeypatch)


def test_positive_control_a_model_that_memorised_its_documents_leaks(judge: Audited) -> None:
    pages = documents(80, seed=2)
    members, others = pages[:40], pages[40:]
    network = trained(members)
    table = travelled(network, members + others)
    found = judge(table, 40)
    assert level(found) == "leak"
    metrics = {metric.name: metric for metric in found["docmia.distance"].metrics}
    assert metrics["AUC"].value is not None
    assert metrics["AUC"].value > 0.9
    assert (metrics["AUC"].unit, metrics["AUC"].n) == ("documents", 68)
    assert metrics["TPR at 1 % FPR"].value is None  # forty non-members cannot show a share of one in a hundred
    # A control that goes the same way: it is not training on the members that shows.
    assert level(judge(table, 40, control=table)) in ("none", "unresolved")
    assert level(judge(table, 40, control=travelled(linear(1), members + others))) == "leak"


def test_negative_controls_find_nothing(judge: Audited) -> None:
    rng = np.random.default_rng(0)
    pages = documents(160, seed=4)
    elsewhere = travelled(trained(documents(40, seed=5)), pages)  # trained on neither class
    noise = pd.DataFrame(rng.random((160, 4)), columns=list(COLUMNS))
    for table, members in ((elsewhere, 80), (noise, 80), (noise, 40)):  # unequal classes in the last
        assert level(judge(table, members)) in ("none", "unresolved")


def test_few_non_members_are_said_to_resolve_nothing(judge: Audited) -> None:
    pages = documents(60, seed=6)
    found = judge(travelled(trained(pages[:50]), pages), 50)
    assert level(found) == "unresolved"
    finding = found[WHOLE.id].finding
    assert finding is not None
    assert "20 attacked documents of each class are needed" in finding.text
    names = {metric.name: metric.note for metric in found["docmia.distance"].metrics}
    assert "8 non-members, 100 are needed" in str(names["TPR at 1 % FPR"])


def test_noise_raises_no_alarm_more_often_than_the_budget_allows() -> None:
    """Twenty tables of noise: the scores are as good as guessing on average."""
    areas = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        table = pd.DataFrame(rng.random((60, 4)), columns=list(COLUMNS))
        labels = rng.permutation(60) < 30
        for row in PARTS:
            found = score(row, table, seed)
            ranks = pd.Series(found.scores).rank().to_numpy()
            areas.append((ranks[labels].mean() - ranks[~labels].mean()) / 60 + 0.5)
    assert abs(float(np.mean(areas)) - 0.5) < 0.03


def test_a_proxy_that_cannot_be_trained_leaves_the_other_finding(judge: Audited) -> None:
    noise = pd.DataFrame(np.random.default_rng(0).random((40, 4)), columns=list(COLUMNS))
    found = judge(noise, 20, checks=frozenset(spec.id for spec in ATTACK.specs))
    assert found[WHOLE.id].status == "ran"
    assert (found[PROXY.id].status, "no proxy" in str(found[PROXY.id].reason)) == ("skipped", True)


def test_a_control_without_weights_lends_its_name_to_no_other(judge: Audited, monkeypatch: pytest.MonkeyPatch) -> None:
    """A control that cannot be trained, beside a pre-trained model that can."""
    seen = []

    def optimised(checkpoint: Path, fingerprint: str, red: Corpus, *_: object) -> pd.DataFrame:
        seen.append((str(checkpoint), fingerprint))
        noise = np.random.default_rng(0).random((len(red.units), 4))
        return pd.DataFrame(noise, columns=list(COLUMNS), index=list(red.units))

    table = pd.DataFrame(np.zeros((40, 4)), columns=list(COLUMNS))
    judge(table, 20, control=table, weights={"target": Path("a"), "pre-trained": Path("b")}, optimised=optimised)
    assert seen == [("a", "target"), ("b", "pre-trained")]


def test_a_proxy_has_no_control_so_that_it_takes_a_declaration(
    judge: Audited, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The models beside it read as well as the model under audit, and no score of theirs is subtracted."""
    pages = documents(80, seed=2)
    table = travelled(trained(pages[:40]), pages)
    folder = tmp_path / "target"
    folder.mkdir()
    (folder / "training.json").write_text("{}")
    monkeypatch.setattr(docmia._Run, "_proxy", lambda run: (folder, run.corpus))
    levels = []
    for control in (None, table):  # without a control the classes are declared to be drawn at random
        finding = judge(table, 40, control=control, checks=frozenset({PROXY.id}))[PROXY.id].finding
        assert finding is not None
        levels.append(finding.level)
    assert levels == ["leak", "unresolved"]


def test_each_seed_and_start_has_a_proxy_of_its_own_that_its_owner_alone_can_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Audits without a folder of their own share the folder of states."""
    monkeypatch.setattr(trained_control, "run_training", lambda *_: None)
    folders, red = set(), corpus(2, 2)
    with ResponseStore(tmp_path / "store.sqlite") as store:
        for seed, start in ((0, "a"), (1, "a"), (0, "b"), (0, "a")):
            (tmp_path / start).mkdir(exist_ok=True)
            (tmp_path / start / "config.json").write_text("{}")
            (tmp_path / start / "model.safetensors").write_text(start)
            context: Any = SimpleNamespace(
                red=red, members=red.units, target=QueryEngine(FakeModel(), store, Silent()),
                weights={"pre-trained": tmp_path / start}, states=tmp_path / "states", device="cpu",
                progress=Silent(), seed=seed,
            )  # fmt: skip
            folders.add(docmia._Run(context, DocmiaSettings())._proxy()[0])
    assert len(folders) == 3
    assert all(folder.parent.stat().st_mode & 0o077 == 0 for folder in folders)


def place(store: ResponseStore) -> Any:
    """What the optimisation takes of a context."""
    return SimpleNamespace(device="cpu", records=Records(store), progress=Silent())


def test_documents_whose_page_cannot_be_decoded_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Model:
        network, is_frozen = nn.Sequential(nn.Linear(2, 1)), staticmethod(lambda name: False)

        def examples(self, queries: tuple[Query, ...], progress: Silent) -> "Model":
            if queries[0].document.unit == "in001":
                raise UnanswerableError("p", "r", "not an image")
            return self

        def __len__(self) -> int:
            return 1

        def loss(self, rows: range) -> torch.Tensor:
            return self.network(torch.ones(1, 2)).square().sum()

    monkeypatch.setattr(optimise, "open_trainable", lambda *_: Model())
    with ResponseStore(tmp_path / "store.sqlite") as store:
        given = (corpus(3, 1), DocmiaSettings(), place(store), "x")
        assert optimise_documents(tmp_path, "x", *given).index.tolist() == ["in000", "in002", "out000"]


def test_lower_is_more_of_a_member_in_every_score() -> None:
    table = pd.DataFrame([[0.1, 1, 0.1, 0.09], [2.0, 8, 3.0, 1.0]], columns=list(COLUMNS)).astype(np.float64)
    for row in PARTS:
        found = score(row, table, 0)
        assert found.scores[0] > found.scores[1], row.id
        assert found.calls.tolist() == [True, False]


def test_another_unit_or_a_model_without_gradients_is_a_reason() -> None:
    have = frozenset({Capability.ANSWER, Capability.LOSS, Capability.TRAINABLE})
    assert "documents as the unit of privacy (--unit document)" in str(unmet_needs(WHOLE, have))
    assert set(WHOLE.needs) - {Capability.LOSS, Capability.TRAINABLE} <= SUBJECT.offers
    assert WHOLE.optional


@pytest.fixture
def few(corpus_folder: Path) -> Corpus:
    red = regroup(open_corpus(corpus_folder, "red"), DOCUMENT)
    return red.where(lambda query: query.document.unit in red.units[:3])


SETTINGS = DocmiaSettings(steps=2, tolerance=0.0, questions=2)


def test_documents_are_optimised_once_and_taken_from_the_store(
    tmp_path: Path, make_checkpoint: Callable[[int], Path], few: Corpus
) -> None:
    with ResponseStore(tmp_path / "store.sqlite") as store:
        context = place(store)
        given = ("x", few, SETTINGS, context, "documents")
        found = optimise_documents(Path(make_checkpoint(0)), *given)
        assert found.index.tolist() == list(few.units)
        assert (found["distance"] > 0).all()
        assert context.records.put_count == 3
        again = optimise_documents(tmp_path / "gone", *given)  # no model is opened for what is known
        pd.testing.assert_frame_equal(found, again)


@pytest.mark.usefixtures("warm_workers")
def test_several_processes_find_what_one_does(
    tmp_path: Path, make_checkpoint: Callable[[int], Path], few: Corpus
) -> None:
    found, processes = [], Processes(2)
    for number, workers in enumerate((None, processes)):
        with ResponseStore(tmp_path / f"{number}.sqlite") as store:
            given = ("x", few, SETTINGS, place(store), "documents", workers)
            found.append(optimise_documents(Path(make_checkpoint(0)), *given))
    pd.testing.assert_frame_equal(*found, check_exact=True)
    opening = HeldOpening(str(make_checkpoint(0)), "cpu", 4, "of other files")
    with pytest.raises(AuditError, match="has changed since"):
        list(processes.calls(opening).each([partial(travel_on, [], SETTINGS)]))
