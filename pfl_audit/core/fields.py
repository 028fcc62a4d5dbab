"""Types of the fields of results.json, each with a limit.

What is read from a file must fit (validated with ``context=READ``). What our own code makes is cut to fit, so that
every file that an audit writes can be read again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Final, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo
from pydantic.fields import FieldInfo

from pfl_audit.core import limits

READ: Final = {"from": "file"}

T = TypeVar("T")


class Part(BaseModel):
    """Base of everything in results.json: immutable, without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def few(most: int) -> FieldInfo:
    """A list of up to ``most`` parts; the first that is wrong is enough."""
    return Field(max_length=most, fail_fast=True)


def is_read(info: ValidationInfo[object]) -> bool:
    """Whether a value comes from a file, not from our own code."""
    return info.context is READ


def thinned(count: int, most: int) -> Iterable[int]:
    """Up to ``most`` places out of ``count``, evenly spaced, the first and the last among them."""
    if count <= most:
        return range(count)
    return (place * (count - 1) // (most - 1) for place in range(most))


def _cut(limit: int) -> BeforeValidator:
    def fit(value: object, info: ValidationInfo[object]) -> object:
        if is_read(info) or not isinstance(value, str | list | dict):
            return value
        if isinstance(value, str) and not value.isascii():
            value = value.encode(errors="replace").decode()  # of a file whose name is no valid UTF-8
        if len(value) <= limit:
            return value
        if isinstance(value, str):
            return value[: limit - 1] + "…"
        return value[:limit] if isinstance(value, list) else dict(list(value.items())[:limit])

    return BeforeValidator(fit)


def _told(value: object, info: ValidationInfo[object]) -> object:
    """A cell of our own; None where it is a number that JSON lacks."""
    return None if isinstance(value, float) and not is_read(info) and not math.isfinite(value) else value


def _small(value: T) -> T:
    """Plain data of any form: a limited number of values, all of them what JSON can hold."""
    if measure(value) > limits.RECORD:
        raise ValueError(f"more than {limits.RECORD} values")
    return value


def _shortened(value: object, info: ValidationInfo[object]) -> object:
    """A record of our own; where it is too large, the entries that are a single value."""
    if is_read(info) or not isinstance(value, dict):
        return value
    try:
        return _small(value)
    except ValueError:
        return {name: item for name, item in value.items() if isinstance(item, str) and len(item) <= limits.TEXT}


def measure(value: object) -> int:
    """How many values plain data holds.

    Raises:
        ValueError: It is nested too deeply, or holds a number or a text beyond the limits; which one is not said.
    """
    count, depth, level = 0, 0, [value]
    while level:
        depth += 1
        if depth > limits.DEPTH:
            raise ValueError("nested too deeply")
        count += len(level)
        if count > limits.VALUES:
            return count
        below: list[object] = []
        for item in level:
            if isinstance(item, dict):
                if any(len(name) > limits.NAME for name in item):
                    raise ValueError(f"a name of more than {limits.NAME} letters")
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, str):
                if len(item) > limits.TEXT:
                    raise ValueError(f"a text of more than {limits.TEXT} letters")
            elif isinstance(item, float):
                if not math.isfinite(item):
                    raise ValueError("a number that is not finite")
            elif isinstance(item, int) and abs(item) > limits.WHOLE:
                raise ValueError("a number that is too large")
        level = below
    return count


Name = Annotated[str, Field(max_length=limits.NAME), _cut(limits.NAME)]
Text = Annotated[str, Field(max_length=limits.TEXT), _cut(limits.TEXT)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Interval = Annotated[tuple[Finite, Finite], BeforeValidator(lambda ends: tuple(ends) if type(ends) is list else ends)]
Whole = Annotated[int, Field(ge=-limits.WHOLE, le=limits.WHOLE)]
Count = Annotated[int, Field(ge=0, le=limits.WHOLE)]
Confidence = Annotated[float, Field(ge=0.5, le=0.999999)]
"""Level of an interval."""
SliceValue = Name | Whole | Finite
Cell = Annotated[Text | Whole | Finite | None, BeforeValidator(_told)]
Slice = Annotated[dict[Name, SliceValue], Field(max_length=limits.ENTRIES)]
Facts = Annotated[dict[Name, Cell], Field(max_length=limits.ENTRIES), _cut(limits.ENTRIES)]
Texts = Annotated[dict[Name, Text], Field(max_length=limits.ENTRIES)]
Notes = Annotated[list[Text], Field(max_length=limits.NOTES, fail_fast=True), _cut(limits.NOTES)]
Settings = Annotated[dict[Name, object], Field(max_length=limits.ENTRIES), AfterValidator(_small)]
Record = Annotated[dict[str, object], BeforeValidator(_shortened), AfterValidator(_small)]
