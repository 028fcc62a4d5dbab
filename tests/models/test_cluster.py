"""A Ray cluster of two machines: the same answers, and an actor that dies costs the call that it had."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from pfl_audit.attacks.docmia.optimise import optimise_documents
from pfl_audit.attacks.docmia.specs import DocmiaSettings
from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.cli.main import run
from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.sides import regroup
from pfl_audit.documents.units import DOCUMENT
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.cluster import Cluster, _Machines
from pfl_audit.models.open import open_model
from pfl_audit.models.openings import AnswerOpening
from pfl_audit.progress import Silent
from tests.attacks.inversion.leaking import save_leaking
from tests.attacks.inversion.template.drawn import save_form
from tests.attacks.inversion.test_workers import Engine
from tests.cli.written import written
from tests.models.cluster_calls import die_once, fail, pid

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Two machines with a processor each, as processes of this one."""
    pytest.importorskip("ray")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray.cluster_utils import Cluster as Machines

    given = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": 80 << 20, "include_dashboard": False}
    machines = Machines(initialize_head=True, head_node_args=given)
    del given["include_dashboard"]
    machines.add_node(**given)
    machines.wait_for_nodes()
    yield machines.address
    ray.shutdown()
    machines.shutdown()


@pytest.fixture(scope="module")
def cluster(address: str) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        made = Cluster(address, 1, "cpu")
        yield made


@pytest.fixture(scope="module")
def opening(make_checkpoint: Callable[[int], Path]) -> AnswerOpening:
    name = str(make_checkpoint(0))
    return AnswerOpening(name, "cpu", False, None, open_model(name).fingerprint)


def test_answers_and_store_are_those_of_one_process(
    cluster: Cluster, opening: AnswerOpening, corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pfl_audit.models.vt5.model.Vt5Responder.batch_size", lambda self, cost: 3)
    queries = open_corpus(corpus_folder, "red").queries[:12]
    model = open_model(opening.name)
    kept = []
    for number, way in enumerate((None, cluster.calls(opening))):
        with ResponseStore(tmp_path / f"{number}.sqlite") as store:
            engine = QueryEngine(model, store, Silent(), way)
            answers = engine.ask(queries, "test")
            assert engine.asked == len(queries)
            kept.append([answers[query] for query in queries])
    assert kept[0] == kept[1]


def test_both_machines_answer_and_one_that_dies_costs_its_call_alone(
    cluster: Cluster, opening: AnswerOpening, tmp_path: Path
) -> None:
    found = dict(cluster.calls(opening).each([pid, pid, partial(die_once, tmp_path / "died"), pid, pid]))
    assert found.keys() == set(range(5))
    assert len(set(found.values())) >= 2
    assert os.getpid() not in found.values()


def test_a_machine_that_others_use_delays_no_audit(cluster: Cluster, opening: AnswerOpening) -> None:
    """Two audits at once: calls were handed to actors that waited for the processors of the other audit."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    for some in (cluster.idle, cluster.starting):
        while some:
            some.pop().end()
    machine = ray.nodes()[0]["NodeID"]
    made: Any = ray.remote(Other)
    there = NodeAffinitySchedulingStrategy(node_id=machine, soft=False)
    other = made.options(num_cpus=1, scheduling_strategy=there).remote()
    ray.get(other.__ray_ready__.remote(), timeout=300)
    found = dict(cluster.calls(opening).each([pid] * 4))
    assert len(set(found.values())) == 1
    assert len(cluster.starting) == 1
    ray.kill(other)
    ray.get(cluster.starting[0].reference, timeout=300)
    assert len(set(dict(cluster.calls(opening).each([pid] * 6)).values())) == 2
    assert not cluster.starting


class Other:
    """An actor of another audit."""


def checks(out: Path) -> Any:
    return json.loads((out / "results.json").read_text())["checks"]


@pytest.fixture
def by_both(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Path, Path]]:
    """The folders of a command by one process, and by the actors."""
    monkeypatch.setattr("pfl_audit.models.cluster.Cluster", lambda address, each, device: cluster)
    monkeypatch.setattr(secrets, "token_hex", lambda count: "0" * 2 * count)  # the same masks

    def run_both(*words: object) -> tuple[Path, Path]:
        for out, more in (("one", ()), ("two", ("--cluster", "head:1"))):
            assert run([*map(str, words), "-q", "--out", str(tmp_path / out), *more]) in (0, 1, 3)
        return tmp_path / "one", tmp_path / "two"

    return run_both


@pytest.fixture
def audit(by_both: Callable[..., tuple[Path, Path]]) -> Callable[..., tuple[Any, Any]]:
    """The checks of a command by one process, and by the actors."""

    def run_both(*words: object) -> tuple[Any, Any]:
        one, two = by_both(*words)
        return checks(one), checks(two)

    return run_both


def test_inversions_are_those_of_one_process(
    audit: Callable[..., tuple[Any, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pfl_audit.attacks.inversion.run.open_engine", lambda name, weights: Engine())
    template, fields = save_form(tmp_path)
    given = ["--model", save_leaking(tmp_path / "donut"), "--template", template, "--fields", fields]
    one, two = audit("invert", *given, "--documents", 2, "--method", "lbfgs", "--method", "text", "--iterations", 4)
    assert [check["status"] for check in two] == ["ran", "ran"]
    assert one == two


def test_audits_of_defences_are_those_of_one_process(
    by_both: Callable[..., tuple[Path, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pfl_audit.attacks.inversion.run.open_engine", lambda name, weights: Engine())
    template, fields = save_form(tmp_path)
    given = ["--model", save_leaking(tmp_path / "donut"), "--template", template, "--fields", fields]
    few = ["--strategy", "random", "--budget", 8, "--method", "lbfgs", "--iterations", 2, "--documents", 2]
    one, two = by_both("defend", *given, *few)
    for audited in ("before", "random-8"):
        assert [check["status"] for check in checks(two / audited)] == ["ran"]
        assert checks(one / audited) == checks(two / audited)


def test_targets_of_a_file_are_those_of_one_process(
    by_both: Callable[..., tuple[Path, Path]],
    make_checkpoint: Callable[[int], Path],
    corpus_folder: Path,
    tmp_path: Path,
) -> None:
    targets = (f'[[targets]]\nname = "{seed}"\nmodel = {json.dumps(str(make_checkpoint(seed)))}\n' for seed in (0, 1))
    shared = f'red = {json.dumps(str(corpus_folder))}\ncheck = ["membership.azk"]\n'
    one, two = by_both("run", written(tmp_path, shared + "\n".join(targets)))
    for target in ("0", "1"):
        assert {check["status"] for check in checks(two / target)} == {"ran"}
        assert checks(one / target) == checks(two / target)


def test_reconstructions_are_those_of_one_process(audit: Callable[..., tuple[Any, Any]]) -> None:
    few = ("--fields", 4, "--attempts", 1, "--candidates", 4, "--set", "reconstruction.expansions=4")
    one, two = audit("reconstruct", *few, "--no-control")
    assert {check["status"] for check in two} == {"ran"}
    assert one == two


def test_documents_are_fine_tuned_as_by_one_process(
    cluster: Cluster, opening: AnswerOpening, corpus_folder: Path, tmp_path: Path
) -> None:
    red = regroup(open_corpus(corpus_folder, "red"), DOCUMENT)
    few, settings = red.where(lambda query: query.document.unit in red.units[:2]), DocmiaSettings(steps=1)
    found = []
    for number, workers in enumerate((None, cluster)):
        with ResponseStore(tmp_path / f"{number}.sqlite") as store:
            context: Any = SimpleNamespace(device="cpu", records=Records(store), progress=Silent())
            given = ("x", few, settings, context, "documents", workers)
            found.append(optimise_documents(Path(opening.name), *given))
    pd.testing.assert_frame_equal(*found, check_exact=True)


def test_what_a_call_raises_comes_back_without_its_text(cluster: Cluster, opening: AnswerOpening) -> None:
    with pytest.raises(AuditError, match="internal error: ValueError") as caught:
        list(cluster.calls(opening).each([fail]))
    assert "Acme" not in str(caught.value)


def test_another_version_or_checkpoint_is_not_asked(cluster: Cluster, opening: AnswerOpening) -> None:
    facts: dict[str, Any] = {**vars(opening)}
    with pytest.raises(AuditError, match="another version"):
        list(cluster.calls(AnswerOpening(**{**facts, "version": "0"})).each([pid]))
    with pytest.raises(AuditError, match="has changed since"):
        list(cluster.calls(AnswerOpening(**{**facts, "fingerprint": "other"})).each([pid]))


def test_gpus_that_actors_do_not_divide_evenly() -> None:
    """Three actors on two GPUs had two thirds of one each, so that the third waited for ever."""
    for gpus in range(1, 9):
        for count in range(1, 20):
            share = _Machines(count, "cuda")._share({"CPU": 64.0, "GPU": float(gpus)})
            assert share is not None
            assert share.gpus * count <= gpus if share.gpus >= 1 else gpus * int(1 / share.gpus) >= count


@pytest.mark.parametrize("text", ["", "host", "host:port", "http://host:1", "local:", "a b:1", "-x"])
def test_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="is no address"):
        Cluster(text, 1, "cpu")


def test_a_cluster_that_does_not_answer() -> None:
    pytest.importorskip("ray")
    with pytest.raises(AuditError, match=r"no Ray cluster answers at 127\.0\.0\.1:1"):
        Cluster("127.0.0.1:1", 1, "cpu")


def test_a_process_starts_one_cluster_after_another() -> None:
    """Each audit of ``defend``, and each target of a file, opens its own; Ray keeps the first token that it reads."""
    pytest.importorskip("ray")
    twice = "for _ in range(2):\n    Cluster('local', 1, 'cpu')\nprint('both')"
    code = f"from pfl_audit.models.cluster import Cluster\n{twice}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False, timeout=300
    )
    assert done.stdout == "both\n", done.stderr


def test_ray_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")

    def fail(**_: object) -> None:
        raise RuntimeError("Failed to start GCS")

    monkeypatch.setattr(ray, "init", fail)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, "")
    with pytest.raises(AuditError, match=r"Ray did not start on this machine.*--workers"):
        Cluster("local", 1, "cpu")


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UsageError, match="needs Ray") as caught:
        Cluster("127.0.0.1:1", 1, "cpu")
    assert "pfl-audit[cluster]" in caught.value.remedy
