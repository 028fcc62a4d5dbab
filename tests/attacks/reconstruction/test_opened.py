"""What an audit of forms and one of questions open, and what they say of it."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from pfl_audit.attacks.reconstruction.context import FormContext
from pfl_audit.attacks.reconstruction.inputs import FORMS, PUBLIC, FormInputs
from pfl_audit.attacks.reconstruction.opened import OpenedForms, open_subject
from pfl_audit.core.context import AuditContext
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.core.subject import AuditJob
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.corpus import Problem
from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import Field, Form, FormCorpus
from pfl_audit.documents.forms.partition import FormPartition
from pfl_audit.errors import UsageError
from pfl_audit.models.form_protocol import FormModel
from pfl_audit.models.protocol import Capability
from pfl_audit.progress import Silent


class Reader:
    """What is asked of a form model here."""

    def __init__(self, name: str, *capabilities: Capability) -> None:
        self.capabilities = frozenset(capabilities)
        self._name = name

    def describe(self) -> dict[str, Any]:
        return {"family": self._name, "notes": ["as it is"]}


def form(name: str, fields: int) -> Form:
    words = tuple(map(str, range(fields)))
    document = Document(name, "", words, np.zeros((fields, 4), np.float32))
    return Form(document, tuple(Field(f"f{number}", "answer", number, number + 1) for number in range(fields)))


@pytest.fixture
def store(tmp_path: Path) -> ResponseStore:
    return ResponseStore(tmp_path / "x.sqlite")


def opened(store: ResponseStore, *, public: bool = True, problems: Sequence[Problem] = (), **more: Any) -> OpenedForms:
    one, two, three = form("a_1", 2), form("b_1", 1), form("c_1", 3)
    return OpenedForms(
        inputs=FormInputs(forms=Path("forms"), public="public"),
        target=cast("FormModel", Reader("target", Capability.FORM_LOSS)),
        public=cast("FormModel", Reader("public", Capability.TOKENS)) if public else None,
        corpus=FormCorpus((one, two, three), "forms.jsonl", problems=tuple(problems)),
        parts=FormPartition((one,), (two,), (), near_duplicates=2, left_out=("c_1",)),
        records=Records(store),
        epochs={},
        **more,
    )


def common(folder: Path) -> AuditContext:
    return AuditContext(
        checks=frozenset({"reconstruction.one_shot"}),
        seed=3,
        budget=Budget(0.01, 0.02),
        redactor=Redactor("salt"),
        evidence=EvidenceBox(folder),
        progress=Silent(),
    )


def test_needs_are_met_by_the_target_and_what_lies_beside_it(store: ResponseStore) -> None:
    assert opened(store).have() == {Capability.FORM_LOSS, FORMS, PUBLIC}
    assert opened(store, public=False).have() == {Capability.FORM_LOSS, FORMS}


def test_the_context_of_an_attack(store: ResponseStore, tmp_path: Path) -> None:
    forms, given = opened(store), common(tmp_path)
    context = forms.context(given)
    assert isinstance(context, FormContext)
    assert (context.checks, context.seed, context.budget) == (given.checks, 3, Budget(0.01, 0.02))
    assert context.public is forms.public
    assert context.parts is forms.parts
    assert opened(store, public=False).context(given) is given


def test_facts_of_the_models(store: ResponseStore) -> None:
    models = opened(store, notes=("trained elsewhere",)).models()
    assert (models.control, models.references) == (None, ())
    assert models.target["notes"] == ["as it is", "trained elsewhere"]
    assert models.public == ({"family": "public", "notes": ["as it is"]}, "public")
    assert opened(store, public=False).models().public is None


@pytest.mark.parametrize("reveal", [False, True])
def test_facts_of_the_forms(store: ResponseStore, reveal: bool) -> None:
    """Forms that were left out are named by pseudonym, records by the line at which they stand."""
    problem = Problem("forms.jsonl line 4", "words is not a list")
    found = opened(store, problems=[problem], unseen=(Problem("b_1", "it has no page image"),))
    data = found.data(Redactor("salt", reveal=reveal))
    assert (data.documents, data.queries) == (3, 6)
    assert data.parts == {"validation": 1, "public": 1, "private": 0, "near_duplicates": 2, "left_out": 1}
    first, second = data.problems
    assert first == "forms.jsonl line 4: words is not a list"
    assert second.endswith(": it has no page image")
    assert ("b_1" in second) == reveal


def test_files_of_single_pages_are_names_of_pages(store: ResponseStore) -> None:
    problems = [
        Problem("b7.json", "/data/b7.json is not valid JSON"),
        Problem("b8.txt total", "its value is not there"),
    ]
    found = opened(store, problems=problems)
    shown = found.data(Redactor("salt")).problems
    assert {line.partition(": ")[2] for line in shown} == {"it cannot be read", "its value is not there"}
    assert all(line.startswith("page ") for line in shown)
    assert shown == sorted(shown)
    assert "b7" not in "".join(shown)
    assert "b8" not in "".join(shown)
    assert found.data(Redactor("salt", reveal=True)).problems == [
        f"{problem.record}: {problem.reason}" for problem in problems
    ]


def test_a_file_of_the_users_own_is_named_by_no_more_than_a_line(store: ResponseStore) -> None:
    records = (
        "imdb/red/red_test_positive.npy row 3",
        "acme/acme_2020.npy row 4",
        "acme.jsonl line 5",
        "corpus.jsonl line 6",
    )
    found = opened(store, problems=[Problem(record, "words is not a list") for record in records])
    assert found.data(Redactor("salt")).problems == [
        f"{place}: words is not a list"
        for place in ("red_test_positive.npy row 3", "a file row 4", "a file line 5", "corpus.jsonl line 6")
    ]


def test_work_is_what_was_put_and_found(store: ResponseStore) -> None:
    forms = opened(store)
    forms.records.put("k", {})
    assert forms.records.get("k") == {}
    assert forms.records.get("k") == {}
    assert forms.work() == {"fields_filled": 1, "fields_reused": 2}


def test_audits_of_another_split_asked_about_other_forms(store: ResponseStore) -> None:
    """What is private there may be public here, in equal numbers."""
    one = opened(store)
    swapped = replace(one.parts, private=one.parts.public, public=one.parts.private)
    digests = [each.data(Redactor("")).sha256 for each in (one, opened(store), replace(one, parts=swapped))]
    assert digests[0] == digests[1] != digests[2]


def test_checkpoints_of_epochs_are_of_the_targets_training(store: ResponseStore, tmp_path: Path) -> None:
    """The public model has the target's vocabulary; a copy of the target without its record may be of any training."""
    shipped = Path(__file__).parents[3] / "fixtures"
    for folder, model in (("others", "layoutlm-public"), ("own", "layoutlm-private"), ("silent", "layoutlm-private")):
        shutil.copytree(shipped / model, tmp_path / folder / "epoch-005")
    (tmp_path / "silent/epoch-005/training.json").unlink()

    def notes(folder: str) -> tuple[str, ...]:
        inputs = FormInputs(forms=shipped / "forms", public=str(shipped / "layoutlm-public"), epochs=tmp_path / folder)
        job = AuditJob(
            str(shipped / "layoutlm-private"),
            "cpu",
            False,
            0,
            store=store,
            states=tmp_path / "states",
            progress=Silent(),
        )
        return open_subject(inputs, job).notes

    with pytest.raises(UsageError, match="epoch-005 is a checkpoint of another training than the target"):
        notes("others")
    silent = "whether checkpoints of epochs are of its training is not recorded: epoch-005"
    assert silent not in notes("own")
    assert silent in notes("silent")
