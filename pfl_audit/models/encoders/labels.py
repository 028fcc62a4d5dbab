"""Labels of a window: classes of tokens, and pointers between tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.encoders.config import EncoderConfig
from pfl_audit.models.encoders.tags import OUTSIDE, field_parts, outside_tag, plain_label, tag_parts
from pfl_audit.models.encoders.tokens import FormTokenizer
from pfl_audit.models.form_protocol import TokenIds, Window
from pfl_audit.models.samples import IGNORED

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

    - ``ee-bio``: every token of a word is ``O`` or has a tag of its field, by the scheme of the head.
    - ``ee-spade`` (Hwang et al.; BROS, section 4.2): the class of a field's first token is its label, of all
      others ``O``; every further token points to its predecessor in the field (CDMI, section 2.1).
    - ``el``: the first token of a field points to the first token of the field that names it, where the window
      holds both.

    ``config.labelled_tokens`` decides which tokens have a label in the last two. A field whose label the head does
    not have is outside of fields.

    Raises:
        AuditError: A field's label may be several labels of the model.
        ValueError: The task is ``mlm``, whose labels come from ``mask_tokens``.
    """
    if config.task == "ee-bio":
        return WindowLabels(classes=_tags(window, config))
    if config.task == "ee-spade":
        return WindowLabels(classes=_initial(window, config), pointers=_predecessors(window, config))
    if config.task == "el":
        return _links(window, config)
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


def known_label(label: str, config: EncoderConfig) -> str | None:
    """The model's own spelling of a field label, or None if it has no such label.

    Case, a prefix ``B-`` or ``I-``, and what is between words do not count; ``config.label_map`` goes before.

    Raises:
        AuditError: It may be several labels of the model.
    """
    if label in config.label_map:
        mapped = config.label_map[label]
        return None if mapped == OUTSIDE else mapped
    if label in config.labels:
        return label
    alike = [known for known in config.labels if plain_label(known) == plain_label(label)]
    if len(alike) > 1:
        raise AuditError(
            f"the field label '{label[:60]}' may be any of {', '.join(alike)[:200]}",
            "Choose one with --label-map NAME=TAG",
        )
    return alike[0] if alike else None


def map_labels(config: EncoderConfig, given: Mapping[str, str]) -> EncoderConfig:
    """The same encoder, for forms whose labels have other names.

    Args:
        given: Field label of the forms to a tag, a label, or ``O``, of the head; case does not count.

    Raises:
        UsageError: The head has no tags, or not such a one.
    """
    if given and config.task not in ("ee-bio", "ee-spade"):
        raise UsageError(f"a model for {config.task} has no tags, so --label-map maps nothing", "Leave --label-map out")
    return replace(config, label_map={label: _label_behind(tag, config) for label, tag in given.items()})


def _label_behind(name: str, config: EncoderConfig) -> str:
    """The label of the head that a user means."""
    behind = dict(zip(config.tags, (label for _, label in tag_parts(config.tags, config.task)), strict=True))
    names = {**behind, **{label: label for label in config.labels}, OUTSIDE: ""}
    for known, label in sorted(names.items(), key=lambda item: item[0] != name):  # the exact name first
        if known.casefold() == name.casefold():
            return label or OUTSIDE
    raise UsageError(
        f"--label-map names the tag '{name[:60]}', which the model does not have",
        f"Choose among: {', '.join((OUTSIDE, *config.labels))[:200]}",
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


def _word_starts(window: Window) -> NDArray[np.bool_]:
    """The first token of each word, bool (n,)."""
    starts = window.words >= 0
    starts[1:] &= window.words[1:] != window.words[:-1]
    return starts


def _tags(window: Window, config: EncoderConfig) -> TokenIds:
    own: dict[str, dict[str, int]] = {}
    for number, (part, label) in enumerate(tag_parts(config.tags, config.task)):
        own.setdefault(label, {})[part] = number
    classes = np.where(window.words >= 0, own[""][""], IGNORED).astype(np.int64)
    for span in window.spans:
        if (known := known_label(span.field.label, config)) is not None:
            parts = field_parts(own[known], window.words[span.start : span.stop].tolist())
            classes[span.start : span.stop] = [own[known][part] for part in parts]
    return classes


def _initial(window: Window, config: EncoderConfig) -> TokenIds:
    number = {tag: value for value, tag in enumerate(config.tags)}
    labelled = _word_starts(window) if config.labelled_tokens == "word-starts" else window.words >= 0
    classes = np.where(labelled, number[outside_tag(config.tags)], IGNORED).astype(np.int64)
    for span in window.spans:
        if (known := known_label(span.field.label, config)) is not None:
            classes[span.start] = number[known]
    return classes


def _predecessors(window: Window, config: EncoderConfig) -> TokenIds:
    labelled = (window.words >= 0) | (config.labelled_tokens == "word-starts")
    pointers = np.where(labelled, NOWHERE, IGNORED).astype(np.int64)
    for span in window.spans:
        if known_label(span.field.label, config) is not None:
            pointers[span.start + 1 : span.stop] = np.arange(span.start, span.stop - 1)
    return pointers


def _links(window: Window, config: EncoderConfig) -> WindowLabels:
    """Of several links to a field the last counts, as in the BROS release; with ``fields`` the first."""
    first = {span.field.id: span.start for span in window.spans}
    links = window.form.links
    if config.labelled_tokens == "word-starts":
        targets = _word_starts(window)
    else:
        targets, links = np.zeros(len(window.ids), dtype=np.bool_), links[::-1]
        targets[list(first.values())] = True
    pointers = np.where(targets, NOWHERE, IGNORED).astype(np.int64)
    for naming, answering in links:
        if naming in first and answering in first and naming != answering:
            pointers[first[answering]] = first[naming]
    return WindowLabels(pointers=pointers, targets=targets)
