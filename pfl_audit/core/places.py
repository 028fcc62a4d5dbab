"""Places on this machine: a report shows them from where the command runs, or by their last part."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterable
from pathlib import Path

_PART = r"[^\s/'\"`<>|;,()\[\]{}]"
_ABSOLUTE = re.compile(rf"(?<![\w.:/~>-])(?:~\w*)?/(?:{_PART}+/)+{_PART}*")
_HIDDEN = "..."
_SET = "--set"
"""Option that sets any field of settings."""


def short(path: str | Path) -> str:
    """A path below the folder where the command runs from there, any other one by its last part.

    A relative path that does not lead upwards stays as it is, and so does the id of a hub.
    """
    given = Path(path)
    if not given.is_absolute() and not str(path).startswith("~") and ".." not in given.parts:
        return str(path)
    place, here = Path(os.path.realpath(_at_home(given))), Path.cwd().resolve()
    if place.is_relative_to(here):
        return str(place.relative_to(here))
    return "~" if place == _home() else place.name or "/"


def _at_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # the user has no home folder
        return Path("/", path.name)


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # such as for a user id of a container that has no user
        return None


def is_shipped(path: str | Path) -> bool:
    """Whether a path is in the folder of models and documents that come with pfl-audit."""
    folder = Path(__file__).parents[1] / "fixtures"
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def short_command(command: str, private: Collection[str] = ()) -> str:
    """A command with its paths shortened.

    Args:
        command: Command line, quoted as in a shell.
        private: Options whose value is left out, and keys whose value is left out behind ``--set``.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return "not shown: it cannot be taken apart"
    shown: list[str] = []
    for word in words:
        before = shown[-1] if shown else ""
        name, given, value = word.partition("=") if word.startswith("--") else ("", "", word)
        if before.startswith("--") and before in private:
            shown.append(_HIDDEN)
        elif before == _SET:
            shown.append(_setting(word, private))
        elif given:
            hidden = _HIDDEN if name in private else _setting(value, private) if name == _SET else _path(value)
            shown.append(f"{name}={hidden}")
        else:
            shown.append(_path(word))
    return shlex.join(shown)


def _setting(text: str, private: Collection[str]) -> str:
    """A setting as ``NAME.key=value``."""
    key, equals, value = text.partition("=")
    is_private = key.partition(".")[2].strip() in private
    return f"{key}{equals}{_HIDDEN if is_private else _path(value)}"


def _path(word: str) -> str:
    return short(word) if "/" in word else word


class Places:
    """Shortens paths in whatever is written down.

    Args:
        known: Values among which are the paths that an audit was given; found in texts whatever their names hold.
    """

    def __init__(self, known: Iterable[object]) -> None:
        texts = {text for value in known for text in _strings(value) if "/" in text and "\0" not in text}
        paths = {text for text in texts if Path(text).is_absolute()}
        paths |= {os.path.realpath(text) for text in texts}
        paths |= {str(Path.cwd()), str(_home() or "/")}
        longest = sorted(paths - {"/"}, key=len, reverse=True)
        self._short = {path: short(path) for path in longest}
        self._known = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, longest)) or '(?!)'})(?!\w)")

    def without(self, value: object) -> object:
        """JSON with every absolute path in its texts shortened."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, list):
            return [self.without(item) for item in value]
        if isinstance(value, dict):
            return {self._text(name): self.without(item) for name, item in value.items()}
        return value

    def _text(self, text: str) -> str:
        if "/" not in text:
            return text
        text = self._known.sub(lambda found: self._short[found[0]], text)
        return _ABSOLUTE.sub(lambda found: found[0].rstrip("/").rsplit("/", 1)[-1], text)


def _strings(value: object) -> Iterable[str]:
    if isinstance(value, str | Path):
        yield str(value)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
