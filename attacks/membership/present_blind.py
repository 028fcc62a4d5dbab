"""The blind baseline as a check: what every membership number is to be compared with."""

from __future__ import annotations

from typing import Final

from pfl_audit.attacks.membership.blind import FOLDS, PENALTY, PERMUTATIONS, Blind
from pfl_audit.attacks.membership.present import FORMATS
from pfl_audit.attacks.membership.rows import DOCUMENTS_CHECK
from pfl_audit.core.fields import Cell
from pfl_audit.core.metric import build_metric
from pfl_audit.core.results import Check, Table

_KINDS: Final = {
    "counts": "numbers of documents, pages and questions, length of answers",
    "keys": "share of each key among the questions",
    "text": "words a page, their length, digits, capitals",
    "layout": "size and place of the words, covered area, margins",
    "dates": "years and months of the dates on the pages",
    "images": "size, brightness, contrast, sharpness and colour of the page images",
    "words": "the words themselves, without digits",
}


def present_blind(blind: Blind) -> Check:
    """The check: AUC and balanced accuracy with their intervals, and the AUC of each kind of feature alone.

    It has no finding of its own: the finding of provider membership is compared with it.
    """
    p_value = f"permutation p {blind.p_value:.4f}, {PERMUTATIONS} labellings, each fitted anew"
    return DOCUMENTS_CHECK.ran(
        settings={
            "permutations": PERMUTATIONS,
            "penalty": PENALTY,
            "learner": f"kernel ridge regression, {FOLDS} folds of providers",
        },
        metrics=[
            build_metric(
                name,
                found,
                format=FORMATS.get(name, "percent"),
                n=len(blind.labels),
                chance=0.5,
                about={"model": "documents alone"},
                note=note,
            )
            for name, found, note in (("AUC", blind.auc, p_value), ("balanced accuracy", blind.balanced_accuracy, None))
        ],
        tables=[_table(blind)],
    )


def _table(blind: Blind) -> Table:
    rows: list[list[Cell]] = [
        [kind, text, round(found.value, 3), f"{found.low:.3f} to {found.high:.3f}"]
        for kind, text in _KINDS.items()
        if (found := blind.kinds.get(kind)) is not None
    ]
    return Table(
        title="Members and non-members distinguished by one kind of feature alone",
        columns=["Kind", "Features", "AUC", "Interval"],
        rows=rows,
        note="Chance is 0.5; below it nothing was learnt. Kinds in which all companies are alike are left out.",
    )
