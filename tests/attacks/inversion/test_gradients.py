import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

import pfl_audit.attacks.inversion.gradients as opening
from pfl_audit.attacks.inversion.captured import read_gradient
from pfl_audit.attacks.inversion.clients import Clients, batch_of, place_template, share
from pfl_audit.attacks.inversion.gradients import observation_key, open_gradients
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.opened import OpenedGradients
from pfl_audit.attacks.inversion.template.fill import fill
from pfl_audit.attacks.inversion.template.synthetic import TemplateRecipe, make_templates
from pfl_audit.attacks.inversion.template.template import Template, TemplateField, open_template
from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.runner import run_audit
from pfl_audit.core.settings import read_settings
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.subject import AuditJob
from pfl_audit.documents.document import as_boxes
from pfl_audit.errors import AuditError, NotAuditableError, UsageError
from pfl_audit.models.gradient_protocol import gradient_of
from pfl_audit.progress import Silent
from tests.attacks.inversion.gradient_fakes import FakeGradients, Looking
from tests.attacks.inversion.template.drawn import form, save_form
from tests.core.plans import FakeRegistry


def given(inputs: GradientInputs) -> dict[str, object]:
    """The inputs that are set."""
    return inputs.model_dump(exclude_unset=True)


Open = Callable[..., OpenedGradients]
VALUES = {"field-1": "Rosa Falcon", "field-2": "01/02/2003", "field-3": "$12.50"}


class Telling(Silent):
    """Remembers what is said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def plan(tmp_path: Path) -> GradientInputs:
    image, fields = save_form(tmp_path)
    return GradientInputs(template=image, fields=fields)


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Open:
    def make(plan: GradientInputs, seed: int = 0, model: FakeGradients | None = None) -> OpenedGradients:
        monkeypatch.setattr(opening, "open_gradient_model", lambda name, device: model or FakeGradients())
        with ResponseStore(tmp_path / "store") as store:
            return open_gradients(plan, AuditJob("ckpt", seed=seed, store=store, states=tmp_path, progress=Silent()))

    return make


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    make_templates(TemplateRecipe(templates=3, seed=1), tmp_path / "forms", Silent())
    return tmp_path / "forms"


def same(one: Any, other: Any) -> bool:
    return all(torch.equal(one[name], other[name]) for name in other) and list(one) == list(other)


def test_a_document_is_filled_in_and_its_gradient_shared(plan: GradientInputs, opened: Open) -> None:
    model = FakeGradients()
    found = opened(plan, model=model)
    (case,) = found.cases
    (truth,) = case.truths
    seen = case.seen
    assert (seen.name, seen.batch, seen.template.size) == ("document 1", 1, (200, 160))
    assert [field.id for field in seen.template.fields] == list(VALUES) == list(truth.values or {})
    assert (truth.page[~seen.template.mask()] == seen.template.pixels[~seen.template.mask()]).all()
    assert (truth.page != seen.template.pixels).any()
    assert same(seen.gradient, gradient_of(model, *batch_of(model, [truth])))
    assert list(seen.gradient) == ["2.weight", "2.bias"]
    assert found.about.model_dump(include={"format", "documents", "queries", "parts"}) == {
        "format": "template",
        "documents": 1,
        "queries": 1,
        "parts": {"templates": 1, "fields": 3, "words": sum(len(value.split()) for value in truth.values.values())},
    }


def test_the_question_is_about_a_field_that_chance_picks(plan: GradientInputs, opened: Open) -> None:
    asked = set()
    for seed in range(8):
        model = FakeGradients()
        (case,) = opened(plan, seed, model).cases
        (sample,) = model.samples
        assert sample.answer in (case.truths[0].values or {}).values()
        asked.add(sample.question)
    assert len(asked) > 1


def test_a_model_that_reads_gets_what_is_printed_too(plan: GradientInputs, opened: Open) -> None:
    model = FakeGradients(reads=True)
    (case,) = opened(plan, model=model).cases
    (sample,) = model.samples
    assert set(case.seen.template.words) < set(sample.words)
    assert "Label" in sample.words[0]
    assert sample.answer in " ".join(sample.words)


def test_a_question_that_is_given_is_asked_of_every_page(plan: GradientInputs, opened: Open) -> None:
    model = FakeGradients()
    opened(plan.model_copy(update={"question": "Who?", "answer": "Rosa", "documents": 2, "batch": 2}), model=model)
    assert [(sample.question, sample.answer) for sample in model.samples] == [("Who?", "Rosa")] * 4


def test_documents_go_round_the_templates_with_new_values(templates: Path, opened: Open) -> None:
    found = opened(GradientInputs(template=templates, documents=5), model=FakeGradients((224, 224)))
    digests = [case.seen.template.digest for case in found.cases]
    assert digests[:2] == digests[3:]
    assert len(set(digests)) == 3
    assert found.cases[0].truths[0].values != found.cases[3].truths[0].values
    assert found.about.parts["templates"] == 3
    more = opened(GradientInputs(template=templates, documents=6), model=FakeGradients((224, 224)))
    assert all(
        same(one.seen.gradient, other.seen.gradient) for one, other in zip(found.cases, more.cases[:5], strict=True)
    )


def test_a_batch_is_the_mean_over_pages_of_their_own(plan: GradientInputs, opened: Open) -> None:
    model = FakeGradients()
    (case,) = opened(plan.model_copy(update={"batch": 3}), model=model).cases
    assert case.seen.batch == len(case.truths) == 3
    assert len({str(truth.values) for truth in case.truths}) == 3
    alone = [share(model, [truth]) for truth in case.truths]
    mean = torch.stack([one["2.weight"] for one in alone]).mean(dim=0)
    assert torch.allclose(case.seen.gradient["2.weight"], mean, atol=1e-6)
    assert case.truths[0].values == opened(plan).cases[0].truths[0].values


def test_the_same_seed_gives_the_same_and_another_another(plan: GradientInputs, opened: Open) -> None:
    plan = plan.model_copy(update={"batch": 2, "noise": 1e-3, "stage": 2})
    one, again, other = (opened(plan, seed).cases[0] for seed in (0, 0, 1))
    assert same(one.seen.gradient, again.seen.gradient)
    assert one.truths[0].values != other.truths[0].values
    model = FakeGradients()
    assert observation_key(model, one.seen) == observation_key(model, again.seen)
    assert observation_key(model, one.seen) != observation_key(model, other.seen)


def test_noise_is_on_every_entry(plan: GradientInputs, opened: Open) -> None:
    plain, noisy = (opened(plan.model_copy(update={"noise": sigma})).cases[0].seen.gradient for sigma in (0.0, 0.1))
    apart = torch.cat([(noisy[name] - plain[name]).flatten() for name in plain])
    assert float(apart.std()) == pytest.approx(0.1, rel=0.2)
    assert bool((apart != 0).all())
    keys = {
        observation_key(FakeGradients(), opened(plan.model_copy(update={"noise": sigma})).cases[0].seen)
        for sigma in (0, 0.1)
    }
    assert len(keys) == 2


def test_a_later_stage_is_a_model_that_was_trained(plan: GradientInputs, opened: Open) -> None:
    fresh, later = FakeGradients(), FakeGradients()
    (case,) = opened(plan.model_copy(update={"stage": 5, "stage_rate": 1e-2}), model=later).cases
    assert not torch.equal(fresh.network[2].weight, later.network[2].weight)
    assert torch.equal(fresh.network.get_parameter("unused"), later.network.get_parameter("unused"))
    assert all(parameter.grad is None for parameter in later.network.parameters())
    truth = opened(plan, model=fresh).cases[0].truths[0]
    assert (truth.page == case.truths[0].page).all()
    assert same(case.seen.gradient, share(later, [truth]))


def test_a_page_of_the_users_own(plan: GradientInputs, opened: Open, tmp_path: Path) -> None:
    page = fill(open_template(plan.template, plan.fields), VALUES, 3)
    Image.fromarray(page.image).save(tmp_path / "d.png")
    own = plan.model_copy(update={"document": tmp_path / "d.png", "question": "Who is it?", "answer": "Rosa Falcon"})
    model = FakeGradients()
    (case,) = opened(own, model=model).cases
    assert case.truths[0].values is None
    assert (case.truths[0].page == page.image).all()
    assert (model.samples[0].question, model.samples[0].words) == ("Who is it?", ())
    told = [{"label": field.label, "box": list(field.box)} for field in form().fields]
    save_form(tmp_path, {"fields": told, "words": [{"text": "Label", "box": [0.1, 0.1, 0.2, 0.2]}]})
    reader = FakeGradients(reads=True)
    opened(own.model_copy(update={"answer": "12.50"}), model=reader)
    assert {"Rosa", "Falcon"} <= set(reader.samples[0].words)
    Image.fromarray(page.image[:100]).save(tmp_path / "d.png")
    with pytest.raises(UsageError, match=r"d\.png is 200 x 100 pixels and its template 200 x 160"):
        opened(own)


def test_an_answer_that_does_not_stand_on_the_page(plan: GradientInputs, tmp_path: Path) -> None:
    told = replace(form(), words=("Label",), boxes=as_boxes([[0.1, 0.1, 0.2, 0.2]], 1))
    clients = Clients(FakeGradients(reads=True), [told], 0, ("Who?", "Nobody"), Silent())
    with pytest.raises(NotAuditableError, match="does not stand"):
        clients.page("document", 0)


def test_the_fields_beside_a_template_are_taken(tmp_path: Path, opened: Open) -> None:
    image, fields = save_form(tmp_path)
    image.rename(tmp_path / "template.png")
    (case,) = opened(GradientInputs(template=tmp_path / "template.png")).cases
    assert [field.label for field in case.seen.template.fields] == ["Label 0:", "Label 1:", "Label 2:"]
    fields.unlink()
    (case,) = opened(GradientInputs(template=tmp_path / "template.png")).cases
    assert {field.label for field in case.seen.template.fields} == {""}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"question": "Who?"}, "--question and --answer belong together"),
        ({"document": Path("d.png")}, "--document needs --question and --answer"),
        ({"gradient": Path("g"), "documents": 2}, "--gradient is of one document, not of 2"),
        ({"words": Path("w")}, "--words are those of --document"),
        ({"gradient": Path("g"), "stage": 1}, "taken as it is"),
        (
            {"gradient": Path("g"), "document": Path("d"), "batch": 2, "question": "a", "answer": "b"},
            "other pages of the batch are unknown",
        ),
        ({"batch": 0}, "setting 'batch' of gradients is wrong"),
        ({"noise": float("nan")}, "setting 'noise' of gradients is wrong"),
        ({"stage_rate": 0.0}, "setting 'stage_rate' of gradients is wrong"),
    ],
)
def test_plans_that_contradict_themselves(plan: GradientInputs, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_settings(GradientInputs, {**plan.model_dump(), **changes}, "gradients").check()


def test_one_document_of_several_forms(templates: Path) -> None:
    for changes in ({"gradient": Path("g")}, {"fields": Path("f")}):
        with pytest.raises(UsageError, match=r"Name its template\.png"):
            GradientInputs(template=templates, **changes).check()


def placed(template: Template, page: tuple[int, int]) -> tuple[Template, list[str]]:
    telling = Telling()
    return place_template(FakeGradients(page), template, telling), telling.said


def test_a_template_is_laid_on_what_the_model_sees() -> None:
    same_size, said = placed(form(), (160, 200))
    assert said == []
    assert [same_size.window(field) for field in same_size.fields] == [form().window(field) for field in form().fields]
    small, said = placed(form(), (75, 90))
    assert said == ["a template of 200 x 160 pixels is seen on 90 x 75: print may be too small to read"]
    shares = np.array([field.box for field in small.fields]) - [field.box for field in form().fields]
    assert (shares[:, :2] <= 1e-9).all()
    assert (shares[:, 2:] >= -1e-9).all()


def test_fields_that_the_model_hardly_sees_are_left_out() -> None:
    thin = replace(form(), fields=(*form().fields, TemplateField("field-4", (0.1, 0.75, 0.9, 0.7501))))
    kept, said = placed(thin, (160, 200))
    assert len(kept.fields) == 3
    assert said == ["1 fields left out: the model sees them below 2 pixels"]
    with pytest.raises(UsageError, match=r"no field of the template is 2 pixels large on the 1 x 1"):
        placed(form(), (1, 1))


def test_a_field_that_is_too_small_stays_empty() -> None:
    tiny = replace(form(), fields=(*form().fields, TemplateField("field-4", (0.1, 0.8, 0.13, 0.85), "Date:")))
    telling = Telling()
    clients = Clients(FakeGradients(), [tiny], 0, None, telling)
    assert set(clients.page("document", 0).values or {}) == set(clients.page("document", 1).values or {}) == set(VALUES)
    assert telling.said == ["1 fields are too small for a value and stay empty"]
    with pytest.raises(UsageError, match="large enough to be written in"):
        Clients(FakeGradients(), [replace(tiny, fields=tiny.fields[3:])], 0, None, telling).page("document", 0)


def captured(model: FakeGradients) -> dict[str, torch.Tensor]:
    truth = Clients(model, [form()], 0, None, Silent()).page("document", 0)
    return share(model, [truth])


def test_a_gradient_that_was_captured(plan: GradientInputs, opened: Open, tmp_path: Path) -> None:
    model = FakeGradients()
    save_file(captured(model), tmp_path / "g.safetensors")
    (case,) = opened(plan.model_copy(update={"gradient": tmp_path / "g.safetensors", "batch": 2})).cases
    assert same(case.seen.gradient, captured(model))
    assert (case.truths, case.seen.batch) == ((), 2)
    half = {name: part.to(torch.bfloat16) for name, part in captured(model).items()}
    save_file(half, tmp_path / "g.safetensors")
    telling = Telling()
    found = read_gradient(tmp_path / "g.safetensors", model, telling)
    assert {part.dtype for part in found.values()} == {torch.float32}
    assert telling.said == ["the gradient lacks 1 of the model's 3 tensors: unused"]


def test_a_file_states_how_a_gradient_was_captured(plan: GradientInputs, opened: Open, tmp_path: Path) -> None:
    save_file(captured(FakeGradients()), path := tmp_path / "g.safetensors")
    inputs = GradientInputs(template=plan.template, fields=plan.fields, gradient=path)
    (tmp_path / "g.toml").write_text('pages = 2\nclients = 3\nlocal_steps = 4\ncodec = "none"\n')
    found = opened(inputs)
    assert (found.cases[0].seen.batch, found.cases[0].seen.steps) == (6, 4)
    assert found.about.facts["Stated of the update"] == "local steps 4, pages 2, clients 3, codec none"
    (tmp_path / "g.toml").write_text('precision = "bfloat16"\ndropout = 0.1\n')
    found = opened(inputs)
    assert found.cases[0].seen.dropout == 0.1
    assert "not of that" in found.about.facts["Contradicted by its numbers"]
    (tmp_path / "g.toml").write_text("noise = 1000\n")
    with pytest.raises(UsageError, match="cannot hold noise of 1e\\+03"):
        opened(inputs)


@pytest.mark.parametrize(
    ("tensors", "message"),
    [
        ({"2.weight": torch.ones(8, 47)}, "tensor 2.weight is (8, 47), the model's parameter (8, 48)"),
        ({"2.bias": torch.full((8,), torch.nan)}, "tensor 2.bias holds NaN or infinite values"),
        ({"2.bias": torch.full((8,), torch.inf)}, "tensor 2.bias holds NaN or infinite values"),
        ({"2.bias": torch.ones(8, dtype=torch.int64)}, "tensor 2.bias holds no floating-point numbers (torch.int64)"),
        ({"2.bias": torch.ones(8), "3.bias": torch.ones(8)}, "tensor '3.bias' is no parameter of the model"),
        ({"a": torch.ones(8), "b": torch.ones(8)}, "none of its 2 tensors is a parameter of the model"),
        ({}, "none of its 0 tensors is a parameter of the model"),
        ({"2.bias": torch.zeros(8), "2.weight": torch.zeros(8, 48)}, "all its numbers are zero"),
        ({"2.bias": torch.full((8,), 1e30)}, "its largest number is 1e+30, too far from 1 to be squared"),
    ],
)
def test_gradients_that_are_none(tensors: dict[str, torch.Tensor], message: str, tmp_path: Path) -> None:
    save_file(tensors, tmp_path / "g.safetensors")
    with pytest.raises(AuditError, match=re.escape(message)):
        read_gradient(tmp_path / "g.safetensors", FakeGradients(), Silent())


def test_a_gradient_file_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "g.safetensors").write_bytes(b"no tensors")
    with pytest.raises(AuditError, match=r"g\.safetensors cannot be read"):
        read_gradient(tmp_path / "g.safetensors", FakeGradients(), Silent())
    with pytest.raises(AuditError, match="is a folder, not a regular file"):
        read_gradient(tmp_path, FakeGradients(), Silent())
    with pytest.raises(UsageError, match="does not exist"):
        read_gradient(tmp_path / "none", FakeGradients(), Silent())


def test_a_run_from_end_to_end(plan: GradientInputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looking = Looking()
    monkeypatch.setattr("pfl_audit.core.runner.ATTACKS", FakeRegistry(looking=looking))
    monkeypatch.setattr(opening, "open_gradient_model", lambda name, device: FakeGradients())
    audit = AuditPlan(
        title="t", out=tmp_path / "run", model="ckpt", inputs={"gradients": {**given(plan), "documents": 2}}
    )
    results = run_audit(audit, Silent())
    assert [check.settings for check in results.checks] == [{"cases": 2}]
    assert (results.target.family, results.datasets[0].format, results.datasets[0].documents) == ("fake", "template", 2)
    assert looking.contexts[0].states == tmp_path / "run" / "private" / "states"
    run_audit(audit, Silent())
    state = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (state["inversions_made"], state["inversions_reused"]) == (0, 2)
    elsewhere = replace(audit, out=tmp_path / "other", store=tmp_path / "shared" / "responses.sqlite")
    run_audit(elsewhere, Silent())
    assert looking.contexts[-1].states == tmp_path / "shared" / "states"


def test_gradients_need_a_template_and_a_model(plan: GradientInputs, tmp_path: Path) -> None:
    audit = AuditPlan(title="t", out=tmp_path / "run", model="ckpt", inputs={"gradients": given(plan)})
    with pytest.raises(UsageError, match=r"nothing to audit the model with: it needs .*--template"):
        run_audit(replace(audit, inputs={}), Silent())
    with pytest.raises(UsageError, match="without the checkpoint nothing can be said about gradients"):
        run_audit(replace(audit, model=None, checks=("inversion",)), Silent())


def test_the_report_on_the_embedded_donut_says_that_it_was_built_to_be_read(tmp_path: Path) -> None:
    fixtures = Path(__file__).parents[3] / "fixtures"
    copy = tmp_path / "copy"
    shutil.copytree(fixtures / "donut", copy)
    image, fields = save_form(tmp_path)
    told = []
    for place in (fixtures / "donut", copy):
        with ResponseStore(tmp_path / "store") as store:
            job = AuditJob(str(place), "cpu", False, 0, store=store, states=tmp_path / "states", progress=Silent())
            told.append(open_gradients(GradientInputs(template=image, fields=fields), job).about.caveat)
    assert "built so that a search can read the page" in told[0]
    assert "built" not in told[1]
    assert told[0].startswith(told[1])


def test_the_pages_of_an_update_are_of_one_form(templates: Path, opened: Open) -> None:
    found = opened(GradientInputs(template=templates, documents=5, batch=3), model=FakeGradients((224, 224)))
    forms = [{page % 3 for page, _ in case.pages} for case in found.cases]
    assert forms == [{0}, {1}, {2}, {0}, {1}]
    others = [page for case in found.cases for page, _ in case.pages[1:]]
    assert len(set(others)) == 10
    for case in found.cases:
        fields = {field.id for field in case.seen.template.fields}
        assert all(set(truth.values or {}) == fields for truth in case.truths)
