"""Sequences of a Donut that prints fields: what it writes of a page, and a value in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pfl_audit.documents.document import Query
from pfl_audit.models.donut.config import DonutConfig
from pfl_audit.models.donut.inputs import Example
from pfl_audit.models.donut.tokenizer import EOS, DonutTokenizer
from pfl_audit.models.donut_fields.parse import Span, parse, value_ids
from pfl_audit.models.donut_fields.tags import FieldTags
from pfl_audit.models.field_keys import no_field, occurrence
from pfl_audit.models.samples import IGNORED


@dataclass(frozen=True)
class Printed:
    """What a model wrote of a page.

    Attributes:
        ids: Tokens, the task first and without an end.
        spans: Fields and groups among them.
    """

    ids: tuple[int, ...]
    spans: tuple[Span, ...]


class FieldInputs:
    """Builds and reads the sequences of a Donut that prints fields."""

    def __init__(self, config: DonutConfig, tokenizer: DonutTokenizer, tags: FieldTags) -> None:
        self.tokenizer, self.tags, self._longest = tokenizer, tags, config.longest
        self.prompt = (tokenizer.id(tags.task),)

    def read(self, written: Sequence[int]) -> Printed:
        """The fields of a generated sequence, without its prompt and end."""
        ids = (*self.prompt, *written)
        return Printed(ids, tuple(parse(ids, self.tags)))

    def path(self, query: Query) -> tuple[str, ...]:
        """Tags of a query's key.

        Raises:
            UnanswerableError: The model has no such tags.
        """
        parts = self.tags.parts(query.key)
        if parts is None:
            raise no_field(query)
        return parts

    def field(self, printed: Printed, path: tuple[str, ...], accepted: str) -> Span | None:
        """The occurrence of a field that is about an accepted answer, or None if the model did not print the field."""
        spans = [span for span in printed.spans if span.path == path and not span.group]
        number = occurrence([self.value(printed, span) for span in spans], accepted)
        return None if number is None else spans[number]

    def value(self, printed: Printed, span: Span) -> str:
        """Text of a field; a token such as ``<yes/>`` is the value ``yes``."""
        ids = value_ids(printed.ids, span)
        if len(ids) == 1 and ids[0] in self.tags.categories:
            return self.tags.categories[ids[0]]
        return self.tokenizer.decode(ids)

    def example(self, printed: Printed, path: tuple[str, ...], value: str) -> Example:
        """What the model wrote before a field, and then a value and its closing tag, which alone are scored.

        The place is that of the field that ``field`` finds. A field that was not printed is put at the end of the
        first group that has its other keys, else behind the last whole field; its opening tags are not scored. A value
        for which there is no place is cut.
        """
        span = self.field(printed, path, value)
        before = printed.ids[: span.start] if span else self._before(printed, path)
        if len(before) > self._longest - 2:
            before = (*self.prompt, *(self.tags.opens[key] for key in path))[: self._longest - 2]
        said = self._ids_of(value)[: self._longest - len(before) - 1]
        targets = (*said, self.tags.closes[path[-1]])
        return Example((*before, *targets[:-1]), (*[IGNORED] * (len(before) - 1), *targets))

    def page(self, fields: Sequence[tuple[tuple[str, ...], str]]) -> Example:
        """The whole sequence of a page, of which all after the task is scored; what does not fit is cut.

        Args:
            fields: Path and value of each field. Fields of one path are a list; groups are printed once.
        """
        ids = (*self.prompt, *self._tagged([(path, value) for path, value in fields]), self.tokenizer.id(EOS))
        ids = ids[: self._longest + 1]
        return Example(ids[:-1], ids[1:])

    def _before(self, printed: Printed, path: tuple[str, ...]) -> tuple[int, ...]:
        for depth in range(len(path) - 1, 0, -1):
            group = next((span for span in printed.spans if span.group and span.path == path[:depth]), None)
            if group is not None:
                return (*printed.ids[: group.stop], *(self.tags.opens[key] for key in path[depth:]))
        end = max((span.stop + 1 for span in printed.spans if len(span.path) == 1), default=1)
        return (*printed.ids[:end], *(self.tags.opens[key] for key in path))

    def _tagged(self, fields: Sequence[tuple[tuple[str, ...], str]]) -> list[int]:
        """Tokens of fields, those of a common first key together, in the order of the ids of their tags."""
        found: list[int] = []
        for key in sorted({path[0] for path, _ in fields}, key=lambda name: self.tags.opens[name]):
            own = [(path[1:], value) for path, value in fields if path[0] == key]
            groups = [one for one in own if one[0]]
            values = [self._ids_of(value) for path, value in own if not path]
            between = [self.tags.separator] if self.tags.separator is not None else []
            listed = [token for number, ids in enumerate(values) for token in (*(between if number else ()), *ids)]
            found += [self.tags.opens[key], *(self._tagged(groups) if groups else listed), self.tags.closes[key]]
        return found

    def _ids_of(self, value: str) -> tuple[int, ...]:
        named = next((token for token, text in self.tags.categories.items() if text == value), None)
        return self.tokenizer.encode(value) if named is None else (named,)
