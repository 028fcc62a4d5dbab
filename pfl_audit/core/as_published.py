"""``--as-published``: the papers' choices in the place of ours, and what a report says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args, get_origin

from pfl_audit.core.settings import Settings, paper_values

_HEAD = "settings as published"


def with_published(model: type[Settings], stated: Mapping[str, object]) -> dict[str, object]:
    """Settings with the paper's value of every field that has one and that the user does not state.

    Args:
        model: Class of the settings.
        stated: Settings that the user states, which win.
    """
    return {**{name: one.value for name, one in paper_values(model).items()}, **stated}


def label_of(settings: Settings, stated: Mapping[str, object]) -> str | None:
    """What is said of numbers of an attack under ``--as-published``; None where no field has a value of a paper.

    Args:
        settings: Settings that the attack runs with.
        stated: Settings that the user states; those that differ from what the switch would give are named.
    """
    model = type(settings)
    published = {name: one.value for name, one in paper_values(model).items()}
    if not published:
        return None
    used = {name: getattr(settings, name) for name in model.model_fields}
    expected = {name: published.get(name, info.get_default()) for name, info in model.model_fields.items()}
    own = [name for name in stated if used[name] != expected[name]]
    paper = [name for name in published if name not in own]
    text = f"{_HEAD}: {', '.join(_said(model, name, used[name]) for name in paper)}" if paper else f"{_HEAD}: none"
    return text + (f"; stated by the user instead: {', '.join(_said(model, n, used[n]) for n in own)}" if own else "")


def _said(model: type[Settings], name: str, value: object) -> str:
    """A setting with its value, which is left out where it may be a path or a text of a document."""
    if isinstance(value, float):
        return f"{name} = {value:.4g}"
    if isinstance(value, bool):
        return f"{name} = {str(value).lower()}"
    if isinstance(value, int) or (isinstance(value, str) and _is_choice(model.model_fields[name].annotation)):
        return f"{name} = {value}"
    return name


def _is_choice(annotation: object) -> bool:
    """Whether all texts of a type are words of ours."""
    parts = get_args(annotation)
    return get_origin(annotation) is Literal or any(_is_choice(part) for part in parts)
