"""The whole attack: what it finds, says and lists, on models whose every word is known and on the embedded ones."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pfl_audit.attacks.reconstruction.attack import ATTACK
from pfl_audit.attacks.reconstruction.context import FormContext
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.core.evidence import EvidenceBox
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.results import Check
from pfl_audit.core.store import Records, ResponseStore
from pfl_audit.core.verdict import Budget
from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import Field, Form, FormCorpus
from pfl_audit.documents.forms.partition import FormPartition, partition_forms
from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.documents.synthetic.forms import FormRecipe, make_forms
from pfl_audit.documents.synthetic.forms_content import is_planted
from pfl_audit.errors import UsageError
from pfl_audit.models.encoders.model import open_form_model
from pfl_audit.models.form_protocol import Blank, FormModel, TokenSpan, Window
from pfl_audit.progress import Silent

from .fakes import SPECIAL, VOCABULARY, Fake, knows, loses, noise

FIXTURES = Path(__file__).parents[3] / "fixtures"
SETTINGS = ReconstructionSettings(candidates=37, attempts=2)
CHECKS = frozenset(spec.id for spec in ATTACK.specs)
Truths = dict[tuple[str, str], tuple[int, ...]]
Opens = Callable[..., FormContext]


class Told(Silent):
    """Remembers what was said."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


class Reads(Fake):
    """A fake that reads pages of one token a word, and loses fields whose id says so."""

    def blanks(self, form: Form) -> list[tuple[Blank, tuple[int, ...]]]:
        found = []
        for field in form.fields:
            ids = np.array([int(word) for word in form.document.words])
            truth = tuple(ids[field.start : field.stop].tolist())
            ids[field.start : field.stop] = 0
            span = TokenSpan(field, field.start, field.stop)
            window = Window(form, 0, ids, form.document.boxes, np.arange(len(ids)), (span,))
            if not field.id.startswith("lost"):
                found.append((Blank(window, span, form.document.boxes[field.start : field.stop]), truth))
        return found

    def describe(self) -> dict[str, Any]:
        return {"sha256": self.fingerprint}


def page(name: str, rng: np.random.Generator, fields: Mapping[str, int]) -> Form:
    """A page with an answer of so many random tokens for each id."""
    words = [str(token) for token in rng.integers(SPECIAL, len(VOCABULARY), size=sum(fields.values()) + 1)]
    boxes = np.tile(np.array([0.1, 0.1, 0.2, 0.2], np.float32), (len(words), 1))
    stops = np.cumsum(list(fields.values()))
    spans = [
        Field(field, "answer", int(stop) - length, int(stop))
        for (field, length), stop in zip(fields.items(), stops, strict=True)
    ]
    return Form(Document(name, "", tuple(words), boxes), tuple(spans))


def pages(prefix: str, count: int, rng: np.random.Generator) -> tuple[Form, ...]:
    return tuple(page(f"{prefix}{number}_1", rng, {"a": 3, "b": 5}) for number in range(count))


@pytest.fixture
def opens(tmp_path: Path) -> Opens:
    """Contexts of fakes that have memorised the private forms."""
    store = ResponseStore(tmp_path / "store.sqlite")

    def make(
        private: tuple[Form, ...],
        validation: tuple[Form, ...] = (),
        *,
        target: FormModel | None = None,
        public: FormModel | None = None,
        reveal: bool = False,
        **more: Any,
    ) -> FormContext:
        corpus = FormCorpus((*private, *validation))
        return FormContext(
            checks=CHECKS,
            seed=0,
            budget=Budget(0.025, 0.05),
            redactor=Redactor("salt", reveal=reveal),
            evidence=EvidenceBox(tmp_path / "run", reveal=reveal),
            progress=Told(),
            target=target or memoriser(private),
            public=public or Reads("public", logits=noise(2, 0.1)),
            corpus=corpus,
            parts=FormPartition(validation, (), private),
            records=Records(store),
            **more,
        )

    return make


def memoriser(forms: tuple[Form, ...], name: str = "target", gain: float = 8.0) -> Reads:
    reader = Reads("reader")
    truths: Truths = {(form.id, b.span.field.id): truth for form in forms for b, truth in reader.blanks(form)}
    return Reads(name, logits=knows(truths, 1, gain))


def attack(context: FormContext, settings: ReconstructionSettings = SETTINGS) -> tuple[Check, Check, Check]:
    """One attempt, several, and guesses."""
    guesses, one, several = ATTACK.run(context, settings)
    return one, several, guesses


def ranked(context: FormContext, settings: ReconstructionSettings) -> Check:
    """The check of several attempts alone, without the search for guesses."""
    (several,) = ATTACK.run(replace(context, checks=frozenset({"reconstruction.multi_shot"})), settings)
    return several


def levels(context: FormContext, settings: ReconstructionSettings = SETTINGS) -> list[str]:
    return [check.finding.level for check in attack(context, settings) if check.finding]


def metric(check: Check, name: str, **about: str) -> Any:
    return next(found for found in check.metrics if found.name == name and about.items() <= found.slice.items())


def table(check: Check, title: str) -> list[list[Any]]:
    return next(found.rows for found in check.tables if found.title == title)


RNG = np.random.default_rng(5)
PRIVATE, NEW = pages("p", 14, RNG), pages("n", 12, RNG)


def test_forms_that_are_remembered_leak(opens: Opens) -> None:
    """Values that are put back are a leak; what the attempts show of memory is a sign."""
    assert levels(opens(PRIVATE, NEW)) == ["weak", "weak", "leak"]


def test_a_model_that_fills_new_forms_in_as_well_does_not_remember(opens: Opens) -> None:
    """It knows more than the public model, of all forms alike."""
    context = opens(PRIVATE, NEW, target=memoriser((*PRIVATE, *NEW)))
    assert metric(attack(context)[0], "improvement factor", fields="private forms").ci[0] > 2
    assert levels(context) == ["none"] * 3


def test_no_evidence_on_forms_that_the_model_was_not_trained_on_is_unresolved(opens: Opens) -> None:
    """As with the wrong --split-seed; what is found nevertheless stays a finding."""
    for check in attack(opens(PRIVATE, NEW, target=memoriser((*PRIVATE, *NEW), "both"), elsewhere=True)):
        assert check.finding
        assert check.finding.level == "unresolved"
        assert "names other forms than the private part" in check.finding.text
        assert "the model names other forms" in check.finding.plain
    assert levels(opens(PRIVATE, NEW, elsewhere=True)) == ["weak", "weak", "leak"]


def test_without_new_forms_it_is_a_weak_sign(opens: Opens) -> None:
    for context, settings in (
        (opens(PRIVATE), SETTINGS),
        (opens(PRIVATE, NEW), SETTINGS.model_copy(update={"control": False})),
    ):
        for check in attack(context, settings):
            assert check.finding
            assert check.finding.level == "weak"
            assert "without forms that are new to the model" in check.finding.text


def test_without_new_forms_no_evidence_states_what_would_have_been_found(opens: Opens) -> None:
    """A difference over public knowledge, since there is no other."""
    context = opens(PRIVATE, target=Reads("target", logits=noise(7, 0.1)))
    for check in attack(context)[:2]:
        assert check.finding
        assert check.finding.level == "none"
        said = re.search(r"a difference of (\S+) over public knowledge would have been found", check.finding.text)
        assert said or "the attack does as public knowledge alone does" in check.finding.text
        assert not said or 0 < float(said[1]) < 0.2


def test_what_private_forms_show_below_public_knowledge_is_said_as_that(opens: Opens) -> None:
    """The target knows the private forms alone, and the public model all of them better: no interval holds 0."""
    public = memoriser((*PRIVATE, *NEW), "public")
    check = attack(opens(PRIVATE, NEW, target=memoriser(PRIVATE, gain=3.0), public=public))[0]
    assert metric(check, "right tokens over public knowledge", fields="private forms").ci[1] < 0
    assert check.finding
    assert check.finding.level == "unresolved"
    assert "on private forms the attack does no better than public knowledge alone" in check.finding.text


def test_few_documents_on_either_side_tell_nothing(opens: Opens) -> None:
    assert levels(opens(PRIVATE[:9], NEW)) == ["unresolved"] * 3
    assert levels(opens(PRIVATE, NEW[:9])) == ["unresolved"] * 3


def test_pages_of_one_document_are_one(opens: Opens) -> None:
    forms = tuple(page(f"form_{number}", RNG, {"a": 3}) for number in range(20))
    check = attack(opens(forms, NEW))[0]
    assert metric(check, "improvement factor", fields="private forms").n == 1
    assert check.finding
    assert check.finding.level == "unresolved"
    assert "Too few documents to tell: 1 (ids are read as document_page), not 10." in check.finding.text


def test_what_is_not_attacked_is_listed_with_the_reason(opens: Opens) -> None:
    odd = page("odd_1", RNG, {"a": 2, "lost-b": 4, "c": 16, "d": 3})
    check = attack(opens((*PRIVATE, odd), NEW))[0]
    rows = table(check, "Fields that were not attacked")
    assert sorted(row[2] for row in rows) == ["not read whole", "too long", "too short"]
    assert len({row[0] for row in rows}) == 1
    assert table(check, "By label, one attempt")[0][:2] == ["answer", 29]


def test_nothing_of_the_right_length_is_skipped_with_the_counts(opens: Opens) -> None:
    forms = tuple(page(f"s{number}_1", RNG, {"a": 1, "lost": 3}) for number in range(3))
    one, several, guesses = attack(opens(forms))
    assert one.status == several.status == guesses.status == "skipped"
    assert "labelled answer has 3 to 15 tokens (3 are shorter, 0 longer, 3 not read whole by" in (one.reason or "")


def test_a_label_that_no_form_has_is_refused(opens: Opens) -> None:
    with pytest.raises(UsageError, match=r"no form has a field of label 'a b'\. Choose among: answer"):
        ATTACK.run(opens(PRIVATE, NEW), SETTINGS.model_copy(update={"labels": ("a\x1bb",)}))


@pytest.mark.parametrize("reveal", [False, True])
def test_names_and_values_are_masked_unless_they_shall_be_seen(opens: Opens, reveal: bool) -> None:
    context = opens(PRIVATE, NEW, reveal=reveal)
    checks = attack(context)
    text = json.dumps([check.model_dump(mode="json") for check in checks])
    values = [form.text(field) for form in PRIVATE for field in form.fields]
    assert table(checks[1], "Fields that came back without an error")
    assert any(f'"{form.id}"' in text for form in PRIVATE) == reveal
    assert any(f'"{value}"' in text for value in values) == reveal


def test_a_curve_over_the_epochs(opens: Opens) -> None:
    """Each checkpoint is opened when its turn comes, and the passes are announced for all."""
    ignorant = Reads("epoch 1", logits=noise(3, 0.1))
    context = opens(PRIVATE, NEW, epochs={1: lambda: ignorant, 30: lambda: memoriser(PRIVATE, "epoch 30")})
    check = attack(context)[0]
    (curve,) = check.curves
    series = curve.series[0]
    assert series.x == [1, 30]
    assert series.y[0] < 1.5 < 5 < series.y[1]
    assert series.low is not None
    assert series.high is not None
    assert series.low[1] <= series.y[1] <= series.high[1]
    assert isinstance(context.progress, Told)
    assert context.progress.said[0].startswith("108 fields (over 3 checkpoints): 432 to ")


@pytest.mark.parametrize(("gain", "same"), [(8.0, True), (0.0, False)])
def test_a_coarser_precision_is_used_where_it_changes_nothing(opens: Opens, gain: float, same: bool) -> None:
    quick = memoriser(PRIVATE, "quick", gain)
    exact = memoriser(PRIVATE)
    context = opens(PRIVATE, NEW, target=exact, quick=quick)
    check = attack(context)[0]
    used, other = (quick, exact) if same else (exact, quick)
    asked = {name for name, _ in used.asked}
    assert {form.id for form in (*PRIVATE, *NEW)} <= {form for form, _ in asked}
    assert len({name for name, _ in other.asked}) == 8
    said = str(check.settings["precision"])
    assert said == f"{'coarser: 8' if same else 'float32: 0'} of 8 sampled fields come out as in float32"
    assert isinstance(context.progress, Told)
    assert said.partition(": ")[2] in context.progress.said


def test_a_run_that_is_made_again_asks_nothing(opens: Opens) -> None:
    first = attack(opens(PRIVATE, NEW))
    target, public = memoriser(PRIVATE), Reads("public", logits=noise(2, 0.1))
    assert attack(opens(PRIVATE, NEW, target=target, public=public)) == first
    assert not target.calls
    assert not public.calls


def planted(forms: tuple[Form, ...]) -> tuple[Form, ...]:
    """The same forms, in which only random values are answers."""
    return tuple(
        replace(
            form,
            fields=tuple(field if is_planted(field) else replace(field, label="other") for field in form.fields),
        )
        for form in forms
    )


@pytest.mark.slow
def test_controls_on_the_embedded_models(opens: Opens, tmp_path: Path) -> None:
    """Random values come back from the forms that were trained on, and from no others."""
    target, public = (open_form_model(FIXTURES / f"layoutlm-{name}") for name in ("private", "public"))
    settings = ReconstructionSettings(attempts=2, fields=40)
    parts = partition_forms(open_forms(FIXTURES / "forms"), seed=0)
    others = planted(make_forms(FormRecipe(20, 1, 1, seed=1), tmp_path / "forms", Silent()).forms[-20:])
    one, several, guesses = attack(
        opens(planted(parts.private), planted(parts.validation), target=target, public=public), settings
    )
    assert one.finding
    assert several.finding
    assert guesses.finding
    assert (one.finding.level, several.finding.level, guesses.finding.level) == ("weak", "weak", "leak")
    perfect = metric(one, "perfect reconstructions", **{"fields": "private forms", "with": "the attack"})
    baseline = metric(one, "perfect reconstructions", **{"fields": "private forms", "with": "public knowledge alone"})
    assert perfect.value >= 0.2
    assert perfect.value >= 10 * baseline.value
    area = metric(several, "AccAUC", **{"fields": "private forms", "with": "the attack"})
    average = metric(several, "AccAt 100 %", **{"fields": "private forms", "with": "the attack"})
    assert area.value > average.value

    one, several, guesses = attack(opens(others, planted(parts.validation), target=target, public=public), settings)
    low, high = metric(one, "improvement factor", fields="private forms").ci
    assert low <= 1 <= high
    assert one.finding
    assert several.finding
    assert guesses.finding
    assert (one.finding.level, several.finding.level, guesses.finding.level) == ("none", "none", "none")


def test_no_evidence_of_models_that_learnt_little_says_so(opens: Opens) -> None:
    all_alike = memoriser((*PRIVATE, *NEW))
    weak = opens(PRIVATE, NEW, target=all_alike, training=({"accuracy": 0.51}, {"accuracy": 0.07}))
    for check in attack(weak):
        assert check.finding
        assert check.finding.level == "none"
        assert check.finding.text.endswith(
            "The target has a validation accuracy of 0.07: what it has not learnt it cannot give away."
        )
    strong = opens(PRIVATE, NEW, target=all_alike, training=({"accuracy": "F1"}, {"accuracy": 0.6}))
    assert all("validation accuracy" not in (check.finding.text if check.finding else "") for check in attack(strong))


def test_fields_are_ranked_by_the_ratio_to_a_public_target(opens: Opens) -> None:
    def reads(name: str, known: tuple[Form, ...]) -> Reads:
        reader = Reads("reader")
        truths: Truths = {(form.id, b.span.field.id): truth for form in known for b, truth in reader.blanks(form)}
        return Reads(name, losses=loses(truths, name), task="ee-bio")

    settings = SETTINGS.model_copy(update={"ranking": "ratio to the public target", "weight": 0.4})
    target, reference = reads("target", PRIVATE), reads("reference", ())
    several = ranked(opens(PRIVATE, NEW, target=target, public_target=reference), settings)
    assert table(several, "By membership metric")[-2][0] == "ratio to the public target"
    assert several.finding
    assert several.finding.level == "weak"
    alike = ranked(opens(PRIVATE, NEW, target=target, public_target=target), settings)
    areas = [metric(one, "AccAUC", **{"with": "the attack"}).value for one in (several, alike)]
    assert areas[0] > areas[1]
    with pytest.raises(UsageError, match="nothing to rank by the ratio to the public target"):
        ranked(opens(PRIVATE, NEW, target=target), settings)


def test_secrets_that_were_put_back_are_listed_with_their_guess(opens: Opens) -> None:
    check = attack(opens(PRIVATE, NEW, reveal=True))[2]
    rows = table(check, "Secrets that were put back")
    assert rows[0][-1] == 1
    within = {k: sum(row[-1] <= k for row in rows) for k in (1, 8, 64)}
    shares = {
        k: metric(check, "secrets put back", fields="private forms", guesses=k, **{"with": "the attack"})
        for k in within
    }  # type: ignore[arg-type]
    secrets = table(check, "Put back within k guesses")[0][3]
    assert {k: round(found.value * secrets) for k, found in shares.items()} == within
