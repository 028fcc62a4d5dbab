"""Templates of prompts: a text with {question} and {words}."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from pfl_audit.errors import UsageError
from pfl_audit.inputs import read_text

_LARGEST = 64 << 10
_FIELD = re.compile(r"\{(\w*)\}")
FIELDS = ("question", "words")


def read_prompt(given: str) -> str:
    """The template that ``--prompt`` gives: its text, or the content of a file.

    Args:
        given: Text with {question}, or the path of a file that has it.

    Raises:
        UsageError: It lacks {question}, or has another field than FIELDS.
        AuditError: The file cannot be read.
    """
    template = given
    with suppress(OSError, ValueError):  # a text that is no name of a file
        if "{question}" not in given and Path(given).is_file():
            template = read_text(Path(given), limit=_LARGEST).rstrip("\n")
    if "{question}" not in template:
        raise UsageError(
            "the prompt template lacks {question}",
            "Give --prompt a text, or a file with a text, such as 'question: {question} context: {words}'",
        )
    if unknown := sorted(set(_FIELD.findall(template)) - set(FIELDS)):
        raise UsageError(
            f"the prompt template has the unknown field {{{unknown[0][:40]}}}", "Use {question} and {words} alone"
        )
    return template


def fill(template: str, question: str, words: str) -> str:
    """The template with its fields filled in; braces in question and words have no effect."""
    values = {"question": question, "words": words}
    return _FIELD.sub(lambda found: values.get(found[1], found[0]), template)
