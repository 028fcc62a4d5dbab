"""A few synthetic forms, and runs on them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pfl_audit.documents.forms.form import FormCorpus
from pfl_audit.documents.forms.readers import open_forms
from pfl_audit.documents.synthetic.forms import FormRecipe, make_forms
from pfl_audit.progress import Silent


@pytest.fixture(scope="session")
def forms_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4 private, 4 public and 3 validation forms with images and links."""
    folder = tmp_path_factory.mktemp("forms") / "forms"
    make_forms(FormRecipe(private=4, public=4, validation=3, seed=5), folder, Silent())
    return folder


@pytest.fixture(scope="session")
def forms(forms_folder: Path) -> FormCorpus:
    """The same, read."""
    return open_forms(forms_folder)
