"""Values that fill every field of a JSON schema, so that a test misses none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def filled(schema: Mapping[str, Any], text: str, choose: Mapping[str, Any] | None = None) -> Any:
    """A value with every optional field, and ``text`` in every string that is not one of a list.

    Args:
        schema: JSON schema with ``$defs``.
        choose: Name of a field to its value, where it has a list of them.
    """
    return _Filler(schema, text, choose or {}).value(schema)


class _Filler:
    def __init__(self, root: Mapping[str, Any], text: str, choose: Mapping[str, Any]) -> None:
        self._root, self._text, self._choose = root, text, choose

    def value(self, schema: Mapping[str, Any], name: str = "") -> Any:
        if "$ref" in schema:
            return self.value(self._root["$defs"][schema["$ref"].rsplit("/", 1)[1]], name)
        for several in ("anyOf", "oneOf"):
            if several in schema:
                return self.value(next(one for one in schema[several] if one.get("type") != "null"), name)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            wanted = self._choose.get(name)
            return wanted if wanted in schema["enum"] else schema["enum"][0]
        return getattr(self, f"_{schema.get('type', 'string')}")(schema)

    def _string(self, schema: Mapping[str, Any]) -> str:
        return self._text

    def _boolean(self, schema: Mapping[str, Any]) -> bool:
        return True

    def _integer(self, schema: Mapping[str, Any]) -> int:
        return max(1, int(schema.get("minimum", 1)))

    def _number(self, schema: Mapping[str, Any]) -> float:
        return float(schema["exclusiveMinimum"]) + 0.5 if "exclusiveMinimum" in schema else 0.5

    def _array(self, schema: Mapping[str, Any]) -> list[Any]:
        if "prefixItems" in schema:
            return [self.value(one) for one in schema["prefixItems"]]
        return [self.value(schema.get("items", {}))]

    def _object(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        known = {name: self.value(one, name) for name, one in schema.get("properties", {}).items()}
        more = schema.get("additionalProperties")
        if isinstance(more, dict):
            known[self._text] = self.value(more)
        elif not known:
            known[self._text] = self._text
        return known
