import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from pfl_audit.attacks.inversion.captured import read_gradient
from pfl_audit.attacks.inversion.gradients import looked_up
from pfl_audit.attacks.inversion.inputs import GradientInputs
from pfl_audit.attacks.inversion.statement import Statement, hold_against, read_statement, with_statement
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.open import open_gradient_model
from pfl_audit.progress import Silent
from tests.attacks.inversion import updates
from tests.attacks.inversion.gradient_fakes import FakeGradients

FIXTURES = Path(__file__).parents[3] / "fixtures"


class Telling(Silent):
    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)


def beside(folder: Path, text: str) -> Path:
    (folder / "g.toml").write_text(text, encoding="utf-8")
    return folder / "g.safetensors"


def test_no_file_states_nothing(tmp_path: Path) -> None:
    assert read_statement(tmp_path / "g.safetensors") is None


def test_what_the_file_states_are_the_inputs(tmp_path: Path) -> None:
    text = "pages = 4\nclients = 2\nlocal_steps = 5\nnoise = 0.1\nclip = 2\ndropout = 0.1\n"
    stated = read_statement(beside(tmp_path, text))
    assert stated is not None
    found = with_statement(GradientInputs(gradient=tmp_path), stated)
    assert (found.batch, found.steps, found.noise, found.clip) == (8, 5, 0.1, 2.0)
    assert stated.lines() == "local steps 5, pages 4, clients 2, clip 2.0, noise 0.1, dropout 0.1"


def test_an_option_that_says_the_same_is_no_contradiction() -> None:
    assert with_statement(GradientInputs(batch=4), Statement(pages=4)).batch == 4
    with pytest.raises(UsageError, match="an option states pages 2, and the file beside --gradient 4"):
        with_statement(GradientInputs(batch=2), Statement(pages=4))
    with pytest.raises(UsageError, match=r"an option states noise 0\.0, and"):
        with_statement(GradientInputs(noise=0.0), Statement(noise=0.5))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pages = ", "g.toml is not valid TOML"),
        ("a." * 2000 + "b = 1", "g.toml"),
        ("pages = 0", "'pages' is wrong"),
        ("local_steps = 1" + "0" * 400, "'local_steps' is wrong"),
        ("dropout = 1.0", "'dropout' is wrong"),
        ("codec = 'zip'", "'codec' is wrong"),
        ("noise = nan", "'noise' is wrong"),
        ("learning = 1", "'learning' is wrong"),
        ("x = '" + "y" * 5000 + "'", "larger than 4 KiB"),
    ],
)
def test_files_that_state_nothing_usable(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(AuditError, match=re.escape(message)):
        read_statement(beside(tmp_path, text))


def test_statements_that_contradict_themselves() -> None:
    with pytest.raises(UsageError, match="a gradient of several steps"):
        with_statement(GradientInputs(), Statement(kind="gradient", local_steps=3))
    with pytest.raises(UsageError, match="states 120 pages; the most are 64"):
        with_statement(GradientInputs(), Statement(pages=12, clients=10))


@pytest.fixture
def gradient() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return {name: torch.randn(64, 48, generator=generator) for name in ("one", "other")}


def said(update: dict[str, torch.Tensor], stated: Statement, tables: tuple[str, ...] = ()) -> str:
    telling = Telling()
    found = hold_against(Path("g.safetensors"), update, stated, telling, tables)
    assert [f"g.toml does not fit the numbers: {words}" for words in found] == telling.said
    return " ".join(telling.said)


def test_a_true_statement_is_not_contradicted(gradient: dict[str, torch.Tensor]) -> None:
    assert not said(gradient, Statement(optimizer="sgd", precision="float32", codec="none", tensors=("one", "other")))
    assert not said(updates.rounded(gradient, torch.bfloat16), Statement(precision="bfloat16"))
    assert not said(updates.integers(gradient, by_row=True), Statement(codec="int8"))
    assert not said({name: part.sign() for name, part in gradient.items()}, Statement(optimizer="adam", local_steps=1))


@pytest.mark.parametrize(
    ("stated", "change", "message"),
    [
        ({"optimizer": "sgd"}, "signs", "all numbers are of one size"),
        ({"optimizer": "adamw", "local_steps": 1}, "nothing", "numbers are of many sizes"),
        ({"precision": "bfloat16"}, "nothing", "the numbers are not of that precision"),
        ({"precision": "float32"}, "half", "all numbers fit in bfloat16"),
        ({"codec": "none"}, "integers", "different numbers"),
        ({"codec": "none"}, "sparse", "of the entries are not zero"),
        ({"codec": "nf4"}, "nothing", "hardly two numbers that are equal"),
        ({"codec": "top-k"}, "nothing", "no entries were left out"),
    ],
)
def test_a_wrong_statement_is_noticed(
    stated: dict[str, object], change: str, message: str, gradient: dict[str, torch.Tensor]
) -> None:
    changes = {
        "nothing": lambda: gradient,
        "signs": lambda: {name: part.sign() for name, part in gradient.items()},
        "half": lambda: updates.rounded(gradient, torch.bfloat16),
        "integers": lambda: updates.integers(gradient, 7, by_row=True),
        "sparse": lambda: updates.sparse(gradient),
    }
    assert message in said(changes[change](), Statement.model_validate(stated))


def test_rows_that_no_page_looks_up_are_no_entries_left_out(gradient: dict[str, torch.Tensor]) -> None:
    rows = torch.zeros(2000, 48).index_copy(0, torch.tensor([3, 50]), gradient["one"][:2])
    update, stated = {**gradient, "bert.words.weight": rows}, Statement(codec="none")
    assert not said(update, stated, ("words.weight",))
    assert "of the entries are not zero" in said(updates.sparse(update), stated, ("words.weight",))


@pytest.mark.parametrize(
    ("checkpoint", "table"),
    [
        ("donut", "decoder.model.decoder.embed_positions.weight"),
        ("vt5-pretrained", "language_backbone.shared.weight"),
    ],
)
def test_tables_that_are_looked_up_are_known_of_every_family(checkpoint: str, table: str) -> None:
    tables = looked_up(open_gradient_model(str(FIXTURES / checkpoint), "cpu"))
    assert any(name.endswith(table) or table.endswith(name) for name in tables)


def test_other_tensors_than_stated(gradient: dict[str, torch.Tensor]) -> None:
    with pytest.raises(UsageError, match="tensor 'third' is stated and not in it"):
        said(gradient, Statement(tensors=("one", "other", "third")))
    with pytest.raises(UsageError, match="tensor 'other' is in it and not stated"):
        said(gradient, Statement(tensors=("one",)))


@pytest.mark.parametrize("shape", [(), (1,), (8,), (8, 1)])
def test_integers_are_multiplied_by_their_steps(shape: tuple[int, ...], tmp_path: Path) -> None:
    steps = 0.5 + torch.rand(shape)
    whole = torch.randint(-127, 128, (8, 48)).to(torch.int8)
    save_file({"2.weight": whole, "2.weight.scale": steps}, tmp_path / "g.safetensors")
    found = read_gradient(tmp_path / "g.safetensors", FakeGradients(), Silent())
    assert torch.equal(found["2.weight"], whole.float() * (steps if shape == () else steps.reshape(-1, 1)))


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        (torch.ones(7), "2.weight.scale is (7,) of torch.float32, not a step or one for each row"),
        (torch.ones(8, dtype=torch.int32), "2.weight.scale is (8,) of torch.int32"),
        (torch.full((8,), torch.nan), "tensor 2.weight holds NaN"),
    ],
)
def test_steps_that_are_none(scale: torch.Tensor, message: str, tmp_path: Path) -> None:
    save_file({"2.weight": torch.ones(8, 48, dtype=torch.int8), "2.weight.scale": scale}, tmp_path / "g.safetensors")
    with pytest.raises(AuditError, match=re.escape(message)):
        read_gradient(tmp_path / "g.safetensors", FakeGradients(), Silent())
