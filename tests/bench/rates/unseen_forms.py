"""Fields of forms that the embedded models have never seen, as these models put them back."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from pfl_audit.attacks.reconstruction.guessing import rank_truths
from pfl_audit.attacks.reconstruction.plan import fields_of
from pfl_audit.attacks.reconstruction.proposals import proposers
from pfl_audit.attacks.reconstruction.search import reconstruct
from pfl_audit.attacks.reconstruction.specs import ReconstructionSettings
from pfl_audit.documents.synthetic.forms import FormRecipe, make_forms
from pfl_audit.models.open import open_form_model
from pfl_audit.progress import Silent
from tests.attacks.reconstruction.null_audits import Field, Receipt

FIXTURES = Path(__file__).parents[3] / "fixtures"
FORMS = 150


class Unseen:
    """Forms that were drawn anew, attacked once with the embedded target and public model."""

    def __init__(self) -> None:
        target, public = (open_form_model(str(FIXTURES / f"layoutlm-{name}")) for name in ("private", "public"))
        settings = ReconstructionSettings()
        with TemporaryDirectory() as folder:
            corpus = make_forms(FormRecipe(private=FORMS, public=1, validation=1, seed=2026), Path(folder), Silent())
            forms = [form for form in corpus.forms if (corpus.parts or {})[form.id] == "private"]
            fields = fields_of(forms, target, settings, ("answer",), 0).fields
            by = proposers(public, target, settings)
            tried = reconstruct([blank for blank, _ in fields], *by, settings, 0, progress=Silent())
            ranks = [rank_truths(fields, one, settings.guesses, settings.expansions, progress=Silent()) for one in by]
        found: dict[str, list[Field]] = {form.id: [] for form in forms}
        for (blank, truth), one, attack, other in zip(fields, tried, *ranks, strict=True):
            found[blank.window.form.id].append(Field(attack, other, truth, one))
        # By what comes back of them: a company has neighbours in this order, so its forms are alike hard.
        self._forms = sorted((fields for fields in found.values() if fields), key=_ease)

    def draw(self, case: str, made: list[Receipt], rng: np.random.Generator) -> list[list[Field]]:
        """A form for each receipt: near-duplicates have the same one, forms of a company such as come back alike."""
        near: dict[int, int] = {}
        forms: dict[int, int] = {}
        for one in made:
            middle = near.setdefault(one.company, int(rng.integers(len(self._forms))))
            place = middle + int(rng.integers(-3, 4))
            forms.setdefault(one.group, int(np.clip(place, 0, len(self._forms) - 1)))
        return [self._forms[forms[one.group]] for one in made]


def _ease(fields: list[Field]) -> float:
    """Right tokens of the attack beyond those of the public model, a field."""
    gains = []
    for field in fields:
        guesses = field.tried.attack[0].tokens, field.tried.baseline[0].tokens
        ours, theirs = (np.mean(np.equal(tokens, field.truth)) for tokens in guesses)
        gains.append(ours - theirs)
    return float(np.mean(gains))
