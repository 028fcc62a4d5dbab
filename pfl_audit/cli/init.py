"""``init``: a commented configuration for the checkpoints and documents of a folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from pfl_audit.cli import options
from pfl_audit.cli.console import print_json
from pfl_audit.core.redaction import visible
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.files import write_text
from pfl_audit.inputs import is_there, require_folder

_DEPTH, _MOST = 3, 2_000
"""Levels below the folder, and folders, that are looked into."""
_SHOWN = 20
_DATA = (".csv", ".json", ".jsonl", ".npy", ".parquet", ".tsv")


@dataclass
class Found:
    """What lies below a folder: checkpoints, corpora and forms, each with its family or format."""

    models: list[tuple[str, str]] = field(default_factory=list)
    corpora: list[tuple[str, str]] = field(default_factory=list)
    forms: list[tuple[str, str]] = field(default_factory=list)

    def chosen(self) -> dict[str, str | None]:
        """Option to the path that the configuration names for it: the first by name, and of corpora not BLUE."""
        corpora = sorted((path for path, _ in self.corpora), key=_is_blue)
        kinds = {"model": [path for path, _ in self.models], "red": corpora, "forms": [path for path, _ in self.forms]}
        return {key: paths[0] if paths else None for key, paths in kinds.items()}


def init(
    folder: Annotated[Path, typer.Argument(help="Folder to look for checkpoints and documents in.")] = Path(),
    out: Annotated[Path, typer.Option("--out", help="File to write.")] = Path("audit.toml"),
    as_json: options.AsJson = False,
) -> None:
    """Write a commented audit.toml for the checkpoints and documents that a folder holds.

    Headers alone are read. Look at what it chose, and run it with 'pfl-audit run'.

    Example: pfl-audit init . --out audit.toml
    """
    if is_there(out):
        raise UsageError(f"{out} is there already", "Name another --out, or move it away")
    require_folder(folder, "Give the folder with the checkpoint and the documents")
    found = look(folder)
    chosen = found.chosen()
    write_text(out, as_toml(found), private=False)
    if as_json:
        content = {"models": found.models, "corpora": found.corpora, "forms": found.forms}
        print_json({"file": str(out), **content, "chosen": chosen})
        return
    kinds = (("checkpoint", found.models), ("corpus", found.corpora), ("forms", found.forms))
    for kind, some in kinds:
        for path, name in some[:_SHOWN]:
            typer.echo(visible(f"{kind:12}{path} ({name})", 500))
        if not some:
            typer.echo(f"{kind:12}none found")
    for key, some in zip(chosen, (found.models, found.corpora, found.forms), strict=True):
        if len(some) > 1:
            typer.echo(visible(f"{key} is {chosen[key]}, the first of {len(some)}: change it if another is meant", 500))
    typer.echo(visible(f"{out}: look at it, then: pfl-audit run {out} --dry-run", 500))


def look(folder: Path) -> Found:
    """Checkpoints, corpora and forms below a folder, by their headers; links are not followed."""
    from pfl_audit.documents.formats import recognise
    from pfl_audit.documents.forms.readers import READERS as FORMS
    from pfl_audit.documents.readers import READERS as CORPORA
    from pfl_audit.models.describe import describe_checkpoint

    found = Found()
    for place in _folders(folder):
        try:
            str(place).encode()  # the configuration is UTF-8
            if (place / "config.json").is_file():
                found.models.append((str(place), describe_checkpoint(place).family))
            elif reader := recognise(FORMS, place):
                found.forms.append((str(place), reader.name))
            elif any(place.is_relative_to(path) for path, _ in found.corpora) or not _may_be_a_corpus(place, folder):
                continue  # a part of a corpus, or a folder that has one in it
            elif corpus := recognise(CORPORA, place):
                found.corpora.append((str(place), corpus.name))
        except (AuditError, UnicodeEncodeError):
            continue  # what cannot be opened or named is nothing to audit
    return found


def _may_be_a_corpus(place: Path, folder: Path) -> bool:
    """Whether a folder may be a corpus: the one that is looked into only if it holds data itself.

    Some readers look into all folders below, so that a project with a corpus in it seems to be one.
    """
    return place != folder or any(file.suffix in _DATA for file in place.iterdir())


def _folders(folder: Path) -> Iterator[Path]:
    """A folder and those below it, in order of their names."""
    for place, below, _ in islice(os.walk(folder), _MOST):
        here = Path(place)
        level = len(here.relative_to(folder).parts)
        below[:] = sorted(name for name in below if not name.startswith(".")) if level < _DEPTH else []
        yield here


def as_toml(found: Found) -> str:
    """The configuration: what was found, and every part of an audit with a comment."""
    model, red, forms = (path or "" for path in found.chosen().values())
    models = [path for path, _ in found.models if path != model]
    corpora = [path for path in sorted((path for path, _ in found.corpora), key=_is_blue) if path != red]
    lines = [
        "# Configuration of an audit: pfl-audit run audit.toml",
        "# Keys are the options of 'pfl-audit audit' without dashes; 'pfl-audit audit --help' lists them all.",
        "# Paths are relative to the folder where the command runs.",
        "",
        f"# Checkpoint under audit{_first_of(found.models)}",
        _key("model", model, off=not model),
        *_others("pretrained", models, "Public checkpoint that it was trained from, if it is one of these"),
        "",
        f"# Corpus of documents that were trained on and of documents that were not{_first_of(found.corpora)}",
        _key("red", red, off=not red),
        *_others("blue", corpora, "Training corpus, to recognise its secrets, if it is one of these"),
        *(["# Forms, for a model of forms", _key("forms", forms, off=bool(red))] if forms else []),
        "# Members and non-members were drawn at random: each company by itself (units), or whole clients (groups)",
        '# classes-random = "units"',
        "# Who can reach the model: public-api, internal or open-weights; the report judges likelihoods by it",
        '# release = "internal"',
        "",
        "# Checks or attacks to run; all if it is not given ('pfl-audit list' lists them)",
        '# check = ["membership", "memorization.provider_name"]',
        "",
        "# Exit code 3 if one of these could not be audited",
        '# require = ["membership"]',
        "# Findings that make the command fail (exit code 1): leak, weak or never",
        'fail-on = "leak"',
        "# Numbers that have to be kept; exit code 1 if not, 3 if a number is missing",
        '# gate = ["membership.* : tpr_at_1_fpr <= 2 %", "memorization.provider_name : gap <= 3 points",',
        '#         "guarantee.epsilon <= 8"]',
        "# Only what got worse than in an earlier audit fails",
        '# baseline = "audit-of-the-last-release"',
        "",
        "seed = 0",
        'out = "audit"',
        "",
        "# Settings of an attack ('pfl-audit explain membership' lists them)",
        "# [attacks.membership]",
        "# seeds = 10",
        "",
        "# An accepted finding; it fails again after the day",
        "# [[waivers]]",
        '# check = "memorization.provider_name"',
        '# reason = "The companies of this corpus do not exist."',
        '# name = "A. Engineer"',
        "# expires = 2026-12-31",
    ]
    return "\n".join(lines) + "\n"


def _first_of(found: Sequence[object]) -> str:
    """Note that one of several was chosen."""
    return f"; the first of {len(found)} that were found, change it if another is meant" if len(found) > 1 else ""


def _is_blue(path: str) -> bool:
    """Whether a corpus is named as one of training, which an audit does not ask about."""
    return "blue" in Path(path).name.lower()


def _key(key: str, value: str, *, off: bool = False) -> str:
    quoted = json.dumps(value or "PATH", ensure_ascii=False).replace("\x7f", "\\u007f")
    return f"{'# ' if off else ''}{key} = {quoted}"


def _others(key: str, paths: Sequence[str], comment: str) -> list[str]:
    return [f"# {comment}", *(_key(key, path, off=True) for path in paths[:_SHOWN])] if paths else []
