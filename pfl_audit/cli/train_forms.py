"""``train --task mlm | ee-bio | ee-spade | el``: its options, and the call."""

from __future__ import annotations

from typing import Final

from pfl_audit.cli.console import make_progress, note, print_json
from pfl_audit.cli.train_options import OptionGroup, Values
from pfl_audit.training.forms.settings import FormTrainSettings

FORMS_ALONE: Final = (
    "backbone", "modality", "part", "epochs", "max_tokens", "keep_every", "split_seed", "labelled_tokens",
)  # fmt: skip
"""Settings of forms that are no settings of questions."""
FORMS: Final = OptionGroup(
    FormTrainSettings,
    (*FORMS_ALONE, "task", "batch_size", "learning_rate", "optimizer", "seed", "size", "vocabulary"),
    "Forms: every --task but qa",
)


def train_forms(values: Values) -> None:
    """Train on forms and print the result.

    Raises:
        AuditError: As run_form_training.
    """
    from pfl_audit.training.forms.run import FormRun, run_form_training

    settings = FormTrainSettings(**FORMS.given(values))
    run = FormRun(values["data"], values["out"], values["start"], values["device"], values["half"])
    record = run_form_training(run, settings, make_progress(quiet=values["quiet"]))
    if values["as_json"]:
        print_json(record)
    elif not values["quiet"]:
        for criterion, chosen in record["chosen"].items():
            figures = f"accuracy {chosen['accuracy']:.3f}, loss {chosen['validation_loss']:.3f}"
            folder = run.out / f"best-{criterion}"
            note(f"{folder}: epoch {chosen['epoch']} of {settings.epochs}, validation {figures}")
