from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from pfl_audit.documents.document import Document
from pfl_audit.documents.forms.form import Form
from pfl_audit.errors import AuditError, UnanswerableError
from pfl_audit.models.encoders.batch import collate
from pfl_audit.models.encoders.checkpoint import save_encoder
from pfl_audit.models.encoders.family import FAMILY
from pfl_audit.models.encoders.model import EncoderModel, open_form_model
from pfl_audit.models.encoders.pages import PageReader
from pfl_audit.models.form_protocol import Attempt, FormModel
from pfl_audit.models.protocol import Capability
from pfl_audit.models.samples import IGNORED
from pfl_audit.models.weights import read_config, tensor_names
from pfl_audit.training.forms.model import ExampleMaker
from tests.models.encoders.makers import encoder, form, page_file, tokenizer
from tests.oracles import encoders as oracle

BACKBONES = ("layoutlm", "bros", "bert")
TASKS = ("mlm", "ee-bio", "ee-spade", "el")


def model(backbone: str, task: str, modality: str = "unimodal", **options) -> EncoderModel:
    return EncoderModel(encoder(backbone, task, modality), {"config.json": "0"}, Path("somewhere"), **options)


def some_attempts(asked: FormModel, forms: list[Form], *, full: bool) -> list[Attempt]:
    """At every field, none, some or all of its tokens filled in, with right and wrong ones."""
    rng = np.random.default_rng(0)
    attempts = []
    for page in forms:
        for blank, truth in asked.blanks(page):
            for count in range(blank.length + full):
                wrong = tuple(int(token) for token in rng.choice(tokenizer().ordinary, count))
                attempts += [Attempt(blank, truth[:count]), Attempt(blank, wrong)]
    return attempts


@pytest.fixture
def forms(tmp_path: Path) -> list[Form]:
    return [form("d_1", page_file(tmp_path, 0)), form("d_2", page_file(tmp_path, 1), extra=6)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("backbone", "task", "modality"),
    [
        *((backbone, task, "unimodal") for backbone in BACKBONES for task in TASKS),
        ("layoutlm", "ee-bio", "bimodal"),
        ("bros", "mlm", "bimodal"),
        ("bert", "el", "bimodal"),
    ],
)
def test_an_attempt_gets_what_it_gets_alone(backbone, task, modality, forms, monkeypatch) -> None:
    asked = model(backbone, task, modality)
    monkeypatch.setattr("pfl_audit.models.encoders.model._BATCH_TOKENS", 130)
    attempts = some_attempts(asked, forms, full=True)
    together = asked.losses(attempts)
    alone = model(backbone, task, modality)
    few = range(0, len(attempts), 9)
    np.testing.assert_allclose(together[few], [alone.losses([attempts[n]])[0] for n in few], rtol=3e-4, atol=3e-5)
    assert np.unique(together.round(4)).size > len(attempts) / 3, "the tokens have a say"


@pytest.mark.parametrize("backbone", BACKBONES)
def test_logits_are_those_of_the_next_open_token(backbone: str, forms: list[Form]) -> None:
    asked = model(backbone, "mlm", "bimodal")
    attempts = some_attempts(asked, forms, full=False)
    together = asked.token_logits(attempts)
    assert together.dtype == np.float32
    maker = ExampleMaker(asked.config, asked.tokenizer)
    for number in range(0, len(attempts), 11):
        blank, tokens = attempts[number].blank, attempts[number].tokens
        np.testing.assert_allclose(together[number], asked.token_logits([attempts[number]])[0], rtol=1e-3, atol=1e-3)
        ids = blank.window.ids.copy()
        ids[blank.span.start : blank.span.start + len(tokens)] = tokens
        batch = maker.batch([blank.window], torch.Generator())
        batch.ids.copy_(torch.from_numpy(ids)[None])
        batch.pixels.copy_(PageReader(32).pixels(blank.window.form, blank.patch)[None])
        with torch.no_grad():
            expected = asked.network(batch).classes[0, blank.span.start + len(tokens)].numpy()
        ordinary = asked.tokenizer.ordinary
        np.testing.assert_allclose(together[number][ordinary], expected[ordinary], rtol=1e-3, atol=1e-3)
    special = np.setdiff1d(np.arange(len(asked.vocabulary)), asked.tokenizer.ordinary)
    assert np.isneginf(together[:, special]).all()
    assert np.isfinite(together[:, asked.tokenizer.ordinary]).all()


@pytest.mark.parametrize("task", ["ee-bio", "ee-spade", "el"])
def test_the_loss_of_the_truth_is_the_training_loss_at_its_last_token(task: str, forms: list[Form]) -> None:
    asked = model("layoutlm", task)
    maker = ExampleMaker(asked.config, asked.tokenizer)
    for page in forms:
        batch = maker.batch(maker.windows([page]))
        with torch.no_grad():
            said, window = asked.network(batch), float(asked.network.loss(batch))
        attempts = [Attempt(blank, truth) for blank, truth in asked.blanks(page)]
        for attempt, loss in zip(attempts, asked.losses(attempts), strict=True):
            place, expected, any_label = attempt.blank.span.stop - 1, 0.0, False
            for logits, labels in ((said.classes, batch.classes), (said.pointers, batch.pointers)):
                if labels is not None and int(labels[0, place]) != IGNORED:
                    expected -= float(logits[0, place].log_softmax(-1)[int(labels[0, place])])
                    any_label = True
            assert loss == pytest.approx(expected if any_label else window, rel=1e-3, abs=1e-5)
        nothing = [Attempt(blank) for blank, _ in asked.blanks(page)][:1]
        assert np.isfinite(asked.losses(nothing)).all()


def test_the_loss_of_mlm_is_that_of_the_masked_fields_tokens(forms: list[Form]) -> None:
    asked = model("layoutlm", "mlm")
    attempts = some_attempts(asked, forms, full=True)
    losses = asked.losses(attempts)
    first = {id(a.blank): asked.token_logits([Attempt(a.blank)])[0] for a in attempts}
    seen = 0
    for attempt, loss in zip(attempts, losses, strict=True):
        if not attempt.tokens:
            assert loss == 0
        if len(attempt.tokens) == 1:
            with torch.no_grad():  # all tokens compete, special ones as well, so the logits are taken whole
                row = asked.network(collate([attempt.blank.window])).classes[0, attempt.blank.span.start].tolist()
            assert loss == pytest.approx(oracle.cross_entropy(row, attempt.tokens[0]), rel=1e-3)
            assert row[attempt.tokens[0]] == pytest.approx(first[id(attempt.blank)][attempt.tokens[0]], rel=1e-3)
            seen += 1
    assert seen > 4


def test_blanks_are_every_field_that_the_tokenizer_can_spell() -> None:
    asked = model("bert", "mlm")
    page = form()
    words = ("Name", ":", "Anna", "\u4e2d", "Date", "\x01", *page.document.words[6:])
    odd = Form(Document("d_3", "p", words, page.document.boxes), page.fields)
    assert [blank.span.field.id for blank, _ in asked.blanks(page)] == ["a", "b", "c", "d"]
    assert [blank.span.field.id for blank, _ in asked.blanks(odd)] == ["a", "d"]
    for blank, truth in asked.blanks(page):
        assert len(truth) == blank.length
        assert set(blank.window.ids[blank.span.start : blank.span.stop]) == {asked.tokenizer.mask}


def test_what_stood_in_the_field_cannot_be_seen(tmp_path: Path) -> None:
    asked = model("layoutlm", "mlm", "bimodal")
    page = form(image=page_file(tmp_path))
    blank, _ = asked.blanks(page)[1]
    before = asked.token_logits([Attempt(blank)])
    picture = np.array(Image.open(page_file(tmp_path)))
    for left, top, right, bottom in page.document.boxes[2:4]:
        picture[int(top * 80) : int(bottom * 80) + 1, int(left * 60) : int(right * 60) + 1] = 0
    (tmp_path / "other").mkdir()
    Image.fromarray(picture).save(tmp_path / "other/page.png")
    words = (*page.document.words[:2], "thank", "smiths", *page.document.words[4:])
    other = Form(
        Document("d_1", "p", words, page.document.boxes, form(image=tmp_path / "other/page.png").document.image),
        page.fields,
    )
    again, truth = asked.blanks(other)[1]
    assert other.document.digest != page.document.digest
    np.testing.assert_array_equal(asked.token_logits([Attempt(again)]), before)
    np.testing.assert_array_equal(asked.losses([Attempt(again, truth)]), asked.losses([Attempt(blank, truth)]))


def test_a_page_is_looked_at_once(forms: list[Form], monkeypatch) -> None:
    asked = model("bert", "ee-bio", "bimodal")
    looked = []
    page = asked.network.page
    monkeypatch.setattr(asked.network, "page", lambda pixels: (looked.append(len(pixels)), page(pixels))[1])
    attempts = some_attempts(asked, forms, full=True)
    asked.losses(attempts)
    asked.losses(attempts)
    assert sum(looked) == len({id(attempt.blank) for attempt in attempts})


def test_noise_replaces_what_is_seen_and_is_part_of_the_fingerprint(forms: list[Form]) -> None:
    plain, noisy = model("layoutlm", "ee-bio", "bimodal"), model("layoutlm", "ee-bio", "bimodal", visual_noise=1)
    attempts = some_attempts(plain, forms, full=True)
    assert np.abs(plain.losses(attempts) - noisy.losses(attempts)).max() > 1e-4
    np.testing.assert_array_equal(noisy.losses(attempts), noisy.losses(attempts))
    prints = {
        plain.fingerprint,
        noisy.fingerprint,
        model("layoutlm", "ee-bio", "bimodal", visual_noise=2).fingerprint,
        model("layoutlm", "ee-bio", "bimodal", precision="bf16").fingerprint,
    }
    assert len(prints) == 4


@pytest.mark.parametrize("backbone", BACKBONES)
def test_bfloat16_says_nearly_the_same(backbone: str, forms: list[Form]) -> None:
    exact, rounded = model(backbone, "mlm", "bimodal"), model(backbone, "mlm", "bimodal", precision="bf16")
    attempts = some_attempts(exact, forms, full=False)
    one, two = exact.token_logits(attempts), rounded.token_logits(attempts)
    ordinary = exact.tokenizer.ordinary
    assert one.dtype == two.dtype == np.float32
    scale = one[:, ordinary].std()
    assert 0 < np.abs(one[:, ordinary] - two[:, ordinary]).max() < 0.25 * scale
    np.testing.assert_allclose(exact.losses(attempts), rounded.losses(attempts), rtol=0.1, atol=0.1)


def test_what_cannot_be_asked_is_one_clear_line(tmp_path: Path) -> None:
    asked = model("layoutlm", "ee-bio", "bimodal")
    blank, truth = asked.blanks(form())[0]
    with pytest.raises(UnanswerableError, match="no page image"):
        asked.losses([Attempt(blank, truth)])
    with pytest.raises(ValueError, match="no logits of tokens"):
        asked.token_logits([Attempt(blank)])
    plain = model("layoutlm", "mlm")
    with pytest.raises(ValueError, match="no open token"):
        plain.token_logits([Attempt(blank, truth)])
    long = tokenizer().windows(form(extra=60), 70)[0]
    blank, truth = tokenizer().scrub(long, long.spans[0])
    with pytest.raises(AuditError, match="a window has 70 tokens, and the layoutlm model reads 48"):
        plain.losses([Attempt(blank, truth)])
    with torch.no_grad():
        plain.network.words.weight.fill_(torch.inf)
    with pytest.raises(AuditError, match="NaN or infinite"):
        plain.losses([Attempt(blank, truth) for blank, truth in plain.blanks(form())])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("modality", ["unimodal", "bimodal"])
@pytest.mark.parametrize("task", TASKS[1:])
@pytest.mark.parametrize("backbone", BACKBONES)
def test_estimated_losses_are_the_losses_to_first_order(backbone, task, modality, forms) -> None:
    asked = model(backbone, task, modality)
    with torch.no_grad():  # all embeddings near that of the mask: there the first order is all
        table = asked.network.words.weight
        middle = table[asked.tokenizer.mask].clone()
        table.copy_(middle + 2e-3 * (table - middle))
    attempts = some_attempts(asked, forms, full=False)[::7]
    asked.losses(attempts)  # page features are shared with what needs no gradient
    estimated = asked.estimated_losses(attempts)
    assert estimated.dtype == np.float32
    closed = np.setdiff1d(np.arange(len(asked.vocabulary)), asked.tokenizer.ordinary)
    assert np.isposinf(estimated[:, closed]).all()
    for row, attempt in enumerate(attempts):
        filled = [Attempt(attempt.blank, (*attempt.tokens, int(token))) for token in asked.tokenizer.ordinary]
        exact, first = asked.losses(filled), estimated[row, asked.tokenizer.ordinary]
        assert np.abs(exact - first).max() < 0.1 * np.ptp(exact) + 1e-6 * (1 + exact.max())
    assert asked.network.words.weight.grad is None


def test_losses_of_a_masked_token_are_not_estimated(forms: list[Form]) -> None:
    with pytest.raises(ValueError, match="gives logits"):
        model("bert", "mlm").estimated_losses(some_attempts(model("bert", "mlm"), forms, full=False))
    tagger = model("bert", "ee-bio")
    with pytest.raises(ValueError, match="no open token"):
        tagger.estimated_losses([Attempt(blank, truth) for blank, truth in tagger.blanks(forms[0])])


def test_a_folder_opens_as_a_form_model(tmp_path: Path) -> None:
    save_encoder(encoder("bros", "mlm"), tmp_path)
    asked = open_form_model(tmp_path)
    assert isinstance(asked, FormModel)
    assert asked.capabilities == {Capability.TOKENS, Capability.FORM_LOSS}
    assert model("bros", "el").capabilities == {Capability.FORM_LOSS, Capability.LOSS_ESTIMATES}
    for task in TASKS:
        save_encoder(encoder("bert", task), tmp_path / task)
        tensors = frozenset(tensor_names(tmp_path / task))
        stated = FAMILY.capabilities(read_config(tmp_path / task), tensors)
        assert stated == open_form_model(tmp_path / task).capabilities
    facts = asked.describe()
    assert (facts["family"], facts["notes"][0]) == ("bros", "mlm, unimodal, float32")
    assert facts["parameters"] == sum(tensor.numel() for tensor in asked.network.parameters())
    assert asked.vocabulary == tokenizer().vocabulary
    assert asked.losses([]).shape == (0,)
    assert asked.token_logits([]).shape == (0, len(asked.vocabulary))
    assert open_form_model(tmp_path).fingerprint == asked.fingerprint


def test_an_embedding_with_spare_rows_is_cut_to_the_vocabulary() -> None:
    spare = encoder("bert", "mlm", vocabulary=50)
    asked = EncoderModel(spare, {}, Path("somewhere"))
    blank, _ = asked.blanks(form())[0]
    assert asked.token_logits([Attempt(blank)]).shape == (1, len(asked.vocabulary))
