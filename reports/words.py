"""Texts of a report beside the numbers: levels, glossary, column heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pfl_audit.core import notebook
from pfl_audit.core.numbers import chance, in_format
from pfl_audit.core.results import Data, Metric

LEVELS: Final = {**notebook.LEVELS, "part": "Part of a finding"}
MODELS: Final = {
    "target": "Model under audit",
    "pre-trained": "Control: the pre-trained model",
    "control": "Control: a model that saw neither class",
    "documents alone": "From the documents alone, without a model",
}
STATUS: Final = {
    "leaks": "Gives away training data",
    "no-evidence": "No evidence of a leak was found",
    "incomplete": "Incomplete",
}
DIRECTIONS: Final = {
    "worse": "What got worse against the first audit",
    "better": "What got better against the first audit",
    "unclear": "What did not change clearly, or is not in both audits",
}
CHANGES: Final = {"worse": "▲ worse", "better": "▼ better", "unclear": "no clear change"}
"""Changes in a cell; the sign says it without colour."""
NOUNS: Final = {"providers": "companies"}
"""Units of privacy in sentences without technical terms."""
ACCESS: Final = {
    "answers": "questions alone",
    "scores": "confidences and losses",
    "weights": "the weights",
    "updates": "one client's updates",
}
"""What an attacker needs."""
GLOSSARY: Final = {
    "Provider": "The company that issued a document. The audit protects providers, not single documents: all documents "
    "of a provider count as one.",
    "Member": "A provider whose documents were in the training set. The documents that the audit asks about are new "
    "ones, not those that were trained on.",
    "Interval": "Where the number would lie, in 95 of 100 cases, had other providers been drawn. It comes from "
    "resampling whole providers. The spread over random seeds is given apart, after ±.",
    "Chance": "What is reached without the model. For accuracy it is the share of the more frequent class.",
    "Accuracy": "Share of providers that the attack puts on the right side.",
    "Balanced accuracy": "Mean of the shares of right calls among members and among non-members.",
    "AUC": "Chance that a member gets a higher score than a non-member. One half is guessing.",
    "TPR at x % FPR": "Share of members that are found while at most x % of the non-members are accused.",
    "ACC": "Share of pages for which the model's answer is exactly right.",
    "ANLS": "Like ACC, but near misses count by the share of letters that are right, if at least half are.",
    "Gap": "A score on pages of members minus the same on pages of non-members. Without memorization it is zero.",
    "Control": "The same attack on a model that saw neither members nor non-members. What it reaches is not what "
    "training gave away, and a finding rests on the difference.",
    "Documents alone": "How well members and non-members are distinguished by their documents and questions, without "
    "any model. What the documents explain is taken off the score.",
    "Permutation p": "How often chance alone would do as well: labels of the attacked providers are exchanged, and the "
    "best of the attacks named beforehand counts.",
    "s": "Attacks are made on the providers with more than s questions; more questions show more.",
}
FORMS_GLOSSARY: Final = {
    "Form": "A page with labelled fields. Private forms are those that the model was trained on; new forms were seen "
    "neither by it nor by the public model.",
    "Public knowledge alone": "The same procedure with a model that was trained on public forms only: what "
    "can be guessed without the private forms.",
    "Secret": "A value that occurs in one private form, in no public one, and nowhere else on its page. It is put back "
    "within k guesses if it is among the k values that the attacker tries first.",
    "Over public knowledge": "The number of the attack minus that of public knowledge alone.",
    "Right tokens": "Share of a field's tokens, its words or parts of words, that one attempt gets right.",
    "Improvement factor": "How many times better the attack is than public knowledge alone, averaged over perfect "
    "reconstructions and the three distances. One is no better.",
    "Perfect reconstructions": "Share of the fields of which every token is right.",
    "Hamming distance": "Share of a field's tokens that are wrong. Levenshtein and Jaro-Winkler distances forgive "
    "shifts.",
    "AccAt p, AccAUC": "Share of perfect reconstructions among the p % of the fields that the attacker believes in "
    "most; its mean over all p.",
    "HamAAC": "One minus the mean, over all p, of the Hamming distance among the p % believed in most.",
    "Chance": "What a model that remembers nothing gives: over public knowledge, nothing.",
    "Interval": "Where the number would lie, in 95 of 100 cases, had other forms been drawn. It comes from resampling "
    "whole providers, or documents where no provider is known.",
}
GRADIENTS_GLOSSARY: Final = {
    "Gradient": "What a client of federated learning shares after looking at its pages: one number for every weight "
    "of the model.",
    "Template": "The empty form, which the attacker is taken to have. Private is what a client writes into its fields.",
    "Words exact": "Share of the written words that a reader (OCR) reads without an error in what came back. The same "
    "reader errs on the original pages too; that share is given beside it.",
    "Fuzz ratio": "Likeness of what is read and what was written, 0 to 1, averaged over fields.",
    "PSNR": "Peak signal-to-noise ratio of the picture that came back, in decibels; from about 20 on, print can be "
    "read.",
    "MSE": "Mean squared error of the pixels on the scale from 0 to 255.",
    "Cosine distance in Fourier space": "One minus the cosine between the spectra of both pictures; 0 is the same.",
    "Chance": "For words: how often values that were drawn anew would have passed for hits.",
    "Interval": "Where the number would lie, in 95 of 100 cases, had other documents been filled in. It comes from "
    "resampling whole documents, or fields where there are fewer than five documents; exact where all or none are "
    "right.",
}
NO_PROOF: Final = (
    "A failed attack is no proof of privacy: another attack may succeed. The numbers hold for the documents and "
    "models named here. What could not be tested is listed and never counts as a pass."
)


GUARANTEE: Final = (
    "How the model was trained is taken from training.json, and cannot be checked from outside. The allowed accuracy "
    "is that of any attack on one provider; the comparison takes members and non-members to be of one kind. To stay "
    "below it proves nothing."
)


_UNITS: Final = {
    "documents": {
        "Document": "The unit of privacy of this audit: all pages and questions of a document count as one.",
        "Member": "A document that was in the training set. The documents that the audit asks about are those "
        "themselves.",
    },
    "persons": {
        "Person": "The unit of privacy of this audit: all documents of a person count as one.",
        "Member": "A person whose documents were in the training set.",
    },
}
"""Terms of the glossary that another unit of privacy than the provider changes."""


def _questions(unit: str) -> dict[str, str]:
    """Glossary of an audit by questions, in the words of its unit of privacy."""
    if unit not in _UNITS:
        return GLOSSARY
    said = {term: text.replace("providers", unit) for term, text in GLOSSARY.items() if term != "Provider"}
    return _UNITS[unit] | {term: text for term, text in said.items() if term not in _UNITS[unit]}


_GLOSSARIES: Final = {"forms": FORMS_GLOSSARY, "gradients": GRADIENTS_GLOSSARY}


_ROUNDED: Final = (
    "Numbers after about, at most or at least are rounded to the half-width of their interval, counts are ranges, and "
    "each is about {0} {1} or more. A number that is not published, or its difference "
    "to another one, is about fewer than {0}. Levels and gates are decided on exact numbers."
)


def glossary(datasets: Sequence[Data], smallest: int | None = None) -> dict[str, str]:
    """The terms that a report needs, by the subjects of its data sets, and of a masked one also how it is rounded."""
    units = " or ".join(dict.fromkeys(NOUNS.get(data.unit, data.unit) for data in datasets))
    terms = {"Rounded": [_ROUNDED.format(smallest, units)]} if smallest else {}
    for data in datasets:
        own = _questions(data.unit) if data.subject == "questions" else _GLOSSARIES.get(data.subject, {})
        for term, text in (own | data.terms).items():
            if text not in terms.setdefault(term, []):
                terms[term].append(text)
    return {term: " ".join(texts) for term, texts in terms.items()}


def slice_name(metric_slice: dict[str, str | int | float]) -> str:
    """Slice of a metric as a column's head."""
    parts = [
        f"{name} = {value}" if isinstance(value, int | float) else str(value) for name, value in metric_slice.items()
    ]
    return " · ".join(parts)


def small_print(metric: Metric) -> str:
    """Text below a number: spread over seeds, chance level, and number of units."""
    parts = []
    if metric.std is not None and metric.seeds and metric.seeds > 1:
        parts.append(f"± {in_format(metric.std, metric.format, bare=True)} over {metric.seeds} seeds")
    if metric.chance is not None:
        parts.append(f"chance {chance(metric)}")
    if metric.n is not None:
        parts.append(f"{metric.n} {metric.unit.removesuffix('s') if metric.n == 1 else metric.unit}")
    if metric.note:
        parts.append(metric.note)
    return ", ".join(parts)
