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
    return "~" if place == Path.home() else place.name or "/"


def _at_home(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # the user has no home folder
        return Path("/", path.name)


def is_shipped(path: str | Path) -> bool:
    """Whether a path is in the folder of models and documents that come with pfl-audit."""
    folder = Path(__file__).parents[1] / "fixtures"
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def short_command(command: str, private: Collection[str] = ()) -> str:
    """A command with its paths shortened.

    Args:
        command: Command line, quoted as in a shell.
        private: Options whose value is left out.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return "not shown: it cannot be taken apart"
    shown: list[str] = []
    for word in words:
        name, given, value = word.partition("=") if word.startswith("--") else ("", "", word)
        if shown and shown[-1] in private:
            value = _HIDDEN
        elif name == _SET or (shown and shown[-1] == _SET):
            value = _setting(value, private)
        elif given:
            value = _HIDDEN if name in private else _path(value)
        else:
            value = _path(value)
        shown.append(f"{name}{given}{value}")
    return shlex.join(shown)


def _setting(text: str, private: Collection[str]) -> str:
    """The value of ``--set``: ``NAME.key=value``."""
    key, equals, value = text.partition("=")
    option = f"--{key.rpartition('.')[2].strip().replace('_', '-')}"
    return f"{key}{equals}{_HIDDEN if option in private else _path(value)}"


def _path(word: str) -> str:
    return short(word) if "/" in word else word


class Places:
    """Shortens paths in whatever is written down.

    Args:
        known: Values among which are the paths that an audit was given; found in texts whatever their names hold.
    """

    def __init__(self, known: Iterable[object]) -> None:
        texts = {text for value in known for text in _strings(value)}
        paths = {text for text in texts if Path(text).is_absolute()}
        paths |= {os.path.realpath(text) for text in texts if "/" in text and "\0" not in text}
        folders = {str(Path.cwd()), str(Path.home())}
        self._known = sorted((paths | folders) - {"/"}, key=len, reverse=True)

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
        for path in self._known:
            text = text.replace(path, short(path))
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
