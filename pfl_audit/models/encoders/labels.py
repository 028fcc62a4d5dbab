"""Labels of a window: classes of tokens, and pointers between tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from pfl_audit.errors import AuditError
from pfl_audit.models.encoders.config import EncoderConfig
from pfl_audit.models.encoders.tags import OUTSIDE
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.form_protocol import TokenIds, Window

IGNORED = -100
"""Label that the loss ignores."""
NOWHERE = -1
"""Pointer of a token that points to no other."""

MASKED_SHARE = 0.15
_BY_MASK, _BY_RANDOM = 0.8, 0.1
"""BERT's masking, which LayoutLM and BROS use too (CDMI, section 2.1)."""


@dataclass(frozen=True, eq=False)
class WindowLabels:
    """The labels of one window; what a task does not use is None.

    Attributes:
        classes: int64 (n,): class of each token (for ``mlm`` the token itself), or IGNORED.
        pointers: int64 (n,): the token that each token points to, or NOWHERE, or IGNORED.
        targets: bool (n,): tokens that may be pointed to; None for all.
    """

    classes: TokenIds | None = None
    pointers: TokenIds | None = None
    targets: NDArray[np.bool_] | None = None


def labels_of(window: Window, config: EncoderConfig) -> WindowLabels:
    """The labels of a window, from its fields and its form's links.

    - ``ee-bio``: every token of a word is ``O``, the first of a field or a further one.
    - ``ee-spade`` (Hwang et al.; BROS, section 4.2): the class of a field's first token is its label, of all
      others ``O``; every further token points to its predecessor in the field (CDMI, section 2.1).
    - ``el``: the first token of a field points to the first token of the field that names it, where the window
      holds both. Only first tokens point or are pointed to.

    Raises:
        AuditError: A field has a label that the model does not know.
        ValueError: The task is ``mlm``, whose labels come from ``mask_tokens``.
    """
    if config.task == "ee-bio":
        return WindowLabels(classes=_classes(window, config, "B-", "I-"))
    if config.task == "ee-spade":
        return WindowLabels(classes=_classes(window, config, "", None), pointers=_predecessors(window))
    if config.task == "el":
        return _links(window)
    raise ValueError("mlm has no labels without masking")


def labels_at(labels: WindowLabels, place: int) -> WindowLabels:
    """Labels of one token; all labels of the window if the token has none, as later tokens of links."""
    said = [one for one in (labels.classes, labels.pointers) if one is not None and one[place] != IGNORED]
    if not said:
        return labels
    return replace(labels, classes=_only(labels.classes, place), pointers=_only(labels.pointers, place))


def _only(values: TokenIds | None, place: int) -> TokenIds | None:
    if values is None:
        return None
    kept = np.full_like(values, IGNORED)
    kept[place] = values[place]
    return kept


def known_label(label: str, config: EncoderConfig) -> str:
    """The model's own spelling of a field label; case is ignored.

    Raises:
        AuditError: The model does not know the label.
    """
    if label in config.labels:
        return label
    for known in config.labels:
        if known.casefold() == label.casefold():
            return known
    raise AuditError(
        f"the model knows no field label '{label[:60]}', only {', '.join(config.labels)[:200]}",
        "Give the forms with the labels that the model was trained on",
    )


def mask_tokens(ids: TokenIds, tokenizer: FormTokenizer, generator: torch.Generator) -> tuple[TokenIds, WindowLabels]:
    """Hide 15 % of a window's ordinary tokens, at least one: 80 % by the mask, 10 % by any, 10 % not at all.

    Args:
        ids: int64 (n,).
        tokenizer: Knows which tokens are ordinary.
        generator: Random generator of all draws, on the CPU.

    Returns:
        The ids to read, int64 (n,), and the labels: what was hidden, where something was.
    """
    places = np.flatnonzero(np.isin(ids, tokenizer.ordinary))
    count = min(len(places), max(1, round(MASKED_SHARE * len(places))))
    chosen = places[torch.randperm(len(places), generator=generator)[:count].numpy()]
    fate = torch.rand(count, generator=generator).numpy()
    drawn = tokenizer.ordinary[torch.randint(len(tokenizer.ordinary), (count,), generator=generator).numpy()]
    hidden, classes = ids.copy(), np.full_like(ids, IGNORED)
    classes[chosen] = ids[chosen]
    hidden[chosen] = np.where(
        fate < _BY_MASK, tokenizer.mask, np.where(fate < _BY_MASK + _BY_RANDOM, drawn, ids[chosen])
    )
    return hidden, WindowLabels(classes=classes)


def _classes(window: Window, config: EncoderConfig, first: str, further: str | None) -> TokenIds:
    number = {tag: value for value, tag in enumerate(config.tags)}
    classes = np.where(window.words >= 0, number[OUTSIDE], IGNORED).astype(np.int64)
    for span in window.spans:
        label = known_label(span.field.label, config)
        if further is not None:
            classes[span.start : span.stop] = number[further + label]
        classes[span.start] = number[first + label]
    return classes


def _predecessors(window: Window) -> TokenIds:
    pointers = np.where(window.words >= 0, NOWHERE, IGNORED).astype(np.int64)
    for span in window.spans:
        pointers[span.start + 1 : span.stop] = np.arange(span.start, span.stop - 1)
    return pointers


def _links(window: Window) -> WindowLabels:
    first = {span.field.id: span.start for span in window.spans}
    targets = np.zeros(len(window.ids), dtype=np.bool_)
    targets[list(first.values())] = True
    pointers = np.where(targets, NOWHERE, IGNORED).astype(np.int64)
    for naming, answering in reversed(window.form.links):  # the first link to a field is the one that counts
        if naming in first and answering in first and naming != answering:
            pointers[first[answering]] = first[naming]
    return WindowLabels(pointers=pointers, targets=targets)
