import hashlib
from pathlib import Path

import numpy as np
import pytest

from pfl_audit.documents.forms.form import PARTS, FormCorpus
from pfl_audit.documents.forms.partition import partition_forms
from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.documents.synthetic.forms import SIZE, FormRecipe, make_forms
from pfl_audit.documents.synthetic.forms_content import draw_sheet, is_planted
from pfl_audit.errors import UsageError
from pfl_audit.progress import Silent

SMALL = FormRecipe(private=12, public=10, validation=6, seed=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forms") / "made"
    make_forms(SMALL, folder, Silent())
    return folder


@pytest.fixture(scope="module")
def corpus(folder: Path) -> FormCorpus:
    return open_forms(folder)


def digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_same_seed_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    make_forms(SMALL, tmp_path / "again", Silent())
    assert digests(tmp_path / "again") == digests(folder)


def test_more_private_forms_leave_the_others_as_they_were(corpus: FormCorpus, tmp_path: Path) -> None:
    more = make_forms(FormRecipe(private=14, public=10, validation=6, seed=5), tmp_path / "more", Silent())
    assert {form.id: form.digest for form in corpus.forms}.items() <= {
        form.id: form.digest for form in more.forms
    }.items()


def test_parts_stand_in_the_file_and_nothing_is_lost_in_dividing(corpus: FormCorpus) -> None:
    assert not corpus.problems
    parts = partition_forms(corpus, seed=0)
    assert [len(parts.of(part)) for part in PARTS] == [6, 10, 12]
    assert not parts.near_duplicates


def test_questions_are_linked_to_their_answers(corpus: FormCorpus) -> None:
    for form in corpus.forms:
        fields = {field.id: field for field in form.fields}
        assert all((fields[q].label, fields[a].label) == ("question", "answer") for q, a in form.links)
        assert sorted(a for _, a in form.links) == sorted(f.id for f in form.fields if f.label == "answer")


def test_planted_values_are_random_and_stand_nowhere_else(corpus: FormCorpus) -> None:
    texts = [" ".join(form.document.words).casefold() for form in corpus.forms]
    for form in corpus.forms:
        planted = [field for field in form.fields if is_planted(field)]
        assert len(planted) == 3
        assert all(field.label == "answer" for field in planted)
        for field in planted:
            assert sum(form.text(field).casefold() in text for text in texts) == 1


def test_other_answers_come_from_short_lists(corpus: FormCorpus) -> None:
    public = {
        form.text(field)
        for form in corpus.forms
        for field in form.fields
        if corpus.parts and corpus.parts[form.id] != "private"
    }
    private = [
        form.text(field)
        for form in corpus.forms
        for field in form.fields
        if corpus.parts and corpus.parts[form.id] == "private" and field.label == "answer" and not is_planted(field)
    ]
    assert np.mean([text in public for text in private]) > 0.4


def test_pages_are_small_and_words_stand_in_their_boxes(corpus: FormCorpus) -> None:
    for form in corpus.forms:
        document = form.document
        assert document.image is not None
        assert document.image.path.stat().st_size < 12_000
        page = document.image.open()
        assert page.size == SIZE
        pixels = np.asarray(page.convert("L"), dtype=int)
        assert 35 <= len(document.words) <= 70
        for left, top, right, bottom in (document.boxes * np.array([*SIZE, *SIZE])).astype(int):
            assert pixels[top : bottom + 1, left : right + 1].std() > 0


def test_even_the_longest_sheet_fits_the_page() -> None:
    from pfl_audit.documents.synthetic.forms import FormPage

    rng = np.random.default_rng(0)
    for _ in range(60):
        boxes = FormPage(draw_sheet(4, rng), rng).canvas.boxes()
        assert boxes.max() < 0.99


@pytest.mark.parametrize("recipe", [FormRecipe(private=0), FormRecipe(planted=1), FormRecipe(planted=5)])
def test_a_recipe_that_cannot_be_drawn(recipe: FormRecipe, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        make_forms(recipe, tmp_path / "x", Silent())
    assert not (tmp_path / "x").exists()


def test_a_folder_that_holds_something(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="is not empty"):
        make_forms(SMALL, tmp_path, Silent())
