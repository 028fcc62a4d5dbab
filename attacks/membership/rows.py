"""The attacks of the paper's Table 4, the ablation of its Table 11, and likelihood ratios."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal

from pfl_audit.attacks.membership.provider_attack import PROVIDER_ATTACKS
from pfl_audit.attacks.questions.inputs import CONTROL, PRETRAINED, REFERENCES
from pfl_audit.models.protocol import Capability
from pfl_audit.registry import ExtensionWarning

if TYPE_CHECKING:
    from pfl_audit.attacks.membership.provider_attack import Scores

G1: Final = ("acc", "nls")
G2: Final = ("loss", "conf")
G3: Final = ("delta_loss", "delta_conf")
G4: Final = ("nls_mem", "delta_nls_mem")
SCRUBBED_RATIO: Final = "llr_mem"
"""Scrubbed-value likelihood ratio; not of the paper, whose G4 is made of answers alone."""
SCRUBBED_OUT: Final = "llr_mem_out"
"""Scrubbed-value likelihood ratio to the control."""
ODDS: Final = ("log_odds", "log_odds_before", "log_odds_ratio", "residual")
TOKENS: Final = ("windows", "hard_tokens")
OUT: Final = ("log_odds_ratio_out", SCRUBBED_OUT)
SCORES: Final = ("lira", "rmia")
ALONE: Final = {"log_odds_ratio": "log_odds", SCRUBBED_RATIO: "loglik_mem"}
"""Column that takes the place of a ratio where a model was not compared with the pre-trained one."""

MEANING: Final = {
    "acc": "share of right answers",
    "nls": "normalised Levenshtein similarity of the answers (ANLS)",
    "loss": "mean loss of the right answers",
    "conf": "mean confidence",
    "delta_loss": "loss of the pre-trained model minus loss of the model (positive: training helped)",
    "delta_conf": "confidence of the model minus confidence of the pre-trained model",
    "nls_mem": "ANLS on pages whose provider name has been taken off",
    "delta_nls_mem": "how much the answer to no question changes once that answer is taken off the page",
    "log_odds": "log-odds of the right answers' probability a token",
    "log_odds_before": "the same under the pre-trained model",
    "log_odds_ratio": "log-odds of the right answers' probability a token, minus those under the pre-trained model",
    "residual": "log-odds beyond what key, length and the log-odds under the pre-trained model let expect",
    "windows": "share of windows of an answer's tokens that are likelier than under the pre-trained model (WBC)",
    "hard_tokens": "probability of the answer's least likely tokens, minus that under the pre-trained model (HT-MIA)",
    "log_odds_ratio_out": "log-odds of the right answers' probability a token, minus those under the control",
    SCRUBBED_RATIO: "log-likelihood, a token, of the true provider name on pages without it, less that before training",
    SCRUBBED_OUT: "log-likelihood, a token, of the true provider name on pages without it, minus the control's",
    "loglik_mem": "log-likelihood, a token, of the true provider name on pages without it",
    "lira": "log-odds above the mean of the reference models, in their standard deviations",
    "rmia": "share of other questions whose ratio of probabilities, to that of the reference models, is smaller (RMIA)",
}


NEEDS: Final[dict[str, set[str]]] = {
    Capability.LOSS: {"loss", "delta_loss", SCRUBBED_RATIO, *ODDS, *TOKENS, *OUT, *SCORES},
    Capability.CONFIDENCE: {"conf", "delta_conf"},
    PRETRAINED: {*G3, *ODDS[1:], *TOKENS, SCRUBBED_RATIO},
    CONTROL: {*OUT},
    REFERENCES: {*SCORES},
    Capability.LIVE: {*G4, SCRUBBED_RATIO, SCRUBBED_OUT},
}
"""Needs of columns beyond the answers of the target."""
Kind = Literal["clusters", "forest", "clusters+vote", "forest+vote", "ratio", "external"]
ACCESS: Final = {
    "ZK": "answers",
    "PK": "answers, confidences and losses, and those of the model that it was trained from",
    "RK": "answers, confidences and losses, and those of reference models that were not trained on them",
    "WB": "weights and gradients",
}
"""Access of an attacker, from the least."""
KNOWLEDGE: Final = tuple(f"{access}+{learning}" for access in ("ZK", "PK", "RK") for learning in "US")
"""Knowledge that an attack may state: its access, and U(nsupervised) or S(upervised)."""


@dataclass(frozen=True)
class AttackRow:
    """One attack: how it decides, and on what.

    Attributes:
        id: Last part of the check's id.
        title: Name of the attack in the paper.
        kind: Clusters are AZK's, forests APK's; vote adds CLS1 and CLS2. A ratio is compared as it is,
            several by their standardised mean.
        features: Columns it uses.
        knowledge: ZK, PK or RK, and U(nsupervised) or S(upervised).
        scores: Score function of an attack from another package with its settings, once a run has bound it.
        decides: Controls beside which it is the attack of its access that the finding rests on, named before any audit;
            None of an audit whose scores are compared as they are.
    """

    id: str
    title: str
    kind: Kind
    features: tuple[str, ...]
    knowledge: str
    scores: Scores | None = None
    decides: tuple[str | None, ...] = ()

    @property
    def access(self) -> str:
        """Key of ACCESS."""
        return self.knowledge.split("+")[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that must be there."""
        return self.features + (G4 if self.kind.endswith("vote") else ())

    @property
    def reference(self) -> Literal["pre-trained", "control", "references"] | None:
        """Models that its score subtracts from the model under audit, so that a control of the same is no comparison.

        None of the forests: changes from the pre-trained model are some of their features, beside the model's own. Nor
        of the residual: a regression takes off a part of what the pre-trained model reads, less the more its losses
        vary.
        """
        columns = set(self.features)
        if columns & set(OUT):
            return "control"
        if columns & set(SCORES):
            return "references"
        return "pre-trained" if columns and columns <= {*ALONE, *TOKENS} else None

    @property
    def needs(self) -> frozenset[str]:
        """What of the target, and besides it, the columns take."""
        taken = (need for need, columns in NEEDS.items() if columns & {*self.columns})
        return frozenset({Capability.ANSWER, *taken})


ROWS: Final = (
    AttackRow("azk", "AZK", "clusters", G1, "ZK+U"),
    AttackRow("azk-g4", "AZK with memorization features", "clusters", G1 + G4, "ZK+U"),
    AttackRow("forest-g1", "Random forest on answers alone", "forest", G1, "ZK+S"),
    AttackRow("apk", "APK", "forest", G1 + G2 + G3, "PK+S"),
    AttackRow("apk-g4", "APK with memorization features", "forest", G1 + G2 + G3 + G4, "PK+S"),
    AttackRow("apk-g4-ratio", "APK with scrubbed-value likelihood ratio", "forest",
              (*G1, *G2, *G3, *G4, SCRUBBED_RATIO), "PK+S"),
    AttackRow("azk-vote", "AZK + CLS1 + CLS2", "clusters+vote", G1, "ZK+U"),
    AttackRow("apk-vote", "APK + CLS1 + CLS2", "forest+vote", G1 + G2 + G3, "PK+S"),
    AttackRow("answers-g4", "Right answers on pages and on scrubbed pages", "ratio", ("acc", "nls_mem"), "ZK+U",
              decides=("control", "pre-trained", None)),
    AttackRow("likelihood-ratio", "Log-odds ratio to the pre-trained model", "ratio", ("log_odds_ratio",), "PK+U"),
    AttackRow("likelihood-ratio-g4", "Log-odds ratio to the pre-trained model, also on scrubbed pages", "ratio",
              ("log_odds_ratio", SCRUBBED_RATIO), "PK+U", decides=("pre-trained",)),
    AttackRow("loss-residual", "Log-odds beyond what question and pre-trained model predict", "ratio", ("residual",),
              "PK+U"),
    AttackRow("loss-residual-g4", "Log-odds beyond what is predicted, also on scrubbed pages", "ratio",
              ("residual", SCRUBBED_RATIO), "PK+U", decides=("control", None)),
    AttackRow("windows", "Windows of tokens against the pre-trained model (WBC)", "ratio", ("windows",), "PK+U"),
    AttackRow("hard-tokens", "Hard tokens against the pre-trained model (HT-MIA)", "ratio", ("hard_tokens",), "PK+U"),
    AttackRow("likelihood-ratio-out", "Log-odds ratio to the control", "ratio", ("log_odds_ratio_out",), "RK+U"),
    AttackRow("likelihood-ratio-out-g4", "Log-odds ratio to the control, also on scrubbed pages", "ratio", OUT, "RK+U",
              decides=("control", "pre-trained", None)),
    AttackRow("lira", "LiRA with reference models, offline", "ratio", ("lira",), "RK+U"),
    AttackRow("rmia", "RMIA with reference models, offline", "ratio", ("rmia",), "RK+U"),
)  # fmt: skip
"""Rows of Table 4 in its order, with one of ours that adds the scrubbed-value likelihood ratio to G4; then scores that
need neither label nor threshold: of answers alone; the user inference of Kandpal et al. (2023), with log-odds in place
of log-likelihoods, alone and with that ratio; the residual of a regression after Bertran et al. (2023), likewise; two
scores of tokens; the log-odds ratio to the control; LiRA and RMIA with several reference models.

The rows that decide were chosen on the embedded models (``fixtures/red`` with ``vt5-finetuned``, ``vt5-out`` and
``vt5-pretrained``; 100 companies of each class), whose numbers are therefore no evidence for the choice: of the scores
that need no label, the one with the largest AUC of each level of access (.74, .91 and .88), each with what pages
without the name add. The residual to the control would have .91 there as well, but a regression subtracts less of what
makes pages hard than a difference does, and this score is not compared with the control once more. LiRA and RMIA do not
decide, because few audits have the models that they need; scores of tokens add nothing to the residual. Where the
pre-trained model is the control, the difference to it decides in place of the residual, which leaves a part of what
both read: of companies that an earlier version was trained on as well, an AUC of up to .70 in simulations, where the
difference has .49.
"""


def take_losses(rows: Iterable[AttackRow]) -> bool:
    """Whether one of some attacks takes the losses of true answers, which the reference code takes with dropout."""
    return any({"loss", "delta_loss"} & set(row.columns) for row in rows)


def every_row() -> tuple[AttackRow, ...]:
    """Ours, and those of other packages."""
    return (*ROWS, *_external())


@cache
def _external() -> tuple[AttackRow, ...]:
    """Attacks of other packages; one with the name of ours, or without a stated access, is left out."""
    ours, found = {row.id for row in ROWS}, []
    for name, one in PROVIDER_ATTACKS.installed().items():
        if one.name in ours or one.knowledge not in KNOWLEDGE:
            reason = f"its name is one of ours, or its knowledge none of {', '.join(KNOWLEDGE)}"
            warnings.warn(f"the provider attack '{name}' is left out: {reason}", ExtensionWarning, stacklevel=2)
        else:
            found.append(AttackRow(one.name, one.title, "external", tuple(one.features), one.knowledge))
    return tuple(found)


ABLATION: Final = (
    AttackRow("km-acc", "KM+U", "clusters", ("acc",), "ZK+U"),
    AttackRow("km-g1", "KM+U", "clusters", G1, "ZK+U"),
    AttackRow("rf-acc", "RF+S", "forest", ("acc",), "ZK+S"),
    AttackRow("rf-g1", "RF+S", "forest", G1, "ZK+S"),
    AttackRow("rf-g1-g2", "RF+S", "forest", G1 + G2, "PK+S"),
    AttackRow("rf-g1-g2-g3", "RF+S", "forest", G1 + G2 + G3, "PK+S"),
    AttackRow("km-g1-g2-g3", "KM+U", "clusters", G1 + G2 + G3, "PK+U"),
)
"""Rows of Table 11, at s = 5."""
