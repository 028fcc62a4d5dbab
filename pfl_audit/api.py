"""Python interface: open a model or a corpus, audit, render. The command line is a thin layer over these functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pfl_audit.errors import UsageError

if TYPE_CHECKING:
    from pfl_audit.core.results import Results
    from pfl_audit.core.review import Release
    from pfl_audit.core.schema import FailOn
    from pfl_audit.core.waivers import Waiver
    from pfl_audit.documents.corpus import Corpus
    from pfl_audit.documents.readers import Part
    from pfl_audit.models.family import Precision
    from pfl_audit.models.protocol import DocumentModel
    from pfl_audit.progress import Progress

RUNS = Path("pfl-audit-runs")
"""Folder of runs that are given none."""


def open_model(
    path: str | Path,
    *,
    device: str = "cpu",
    download: bool = False,
    prompt: str | None = None,
    precision: Precision = "fp32",
    batch_tokens: int | None = None,
) -> DocumentModel:
    """Open a model that answers questions about pages.

    Args:
        path: Checkpoint folder, or with ``download`` a hub id.
        device: ``cuda``, ``mps``, ``cpu``, another of torch's names, or ``auto``.
        download: Whether a hub id may be fetched.
        prompt: Template with {question} and maybe {words}, for families that are asked by one.
        precision: Floating-point type of matrix products.
        batch_tokens: Largest number of tokens in a batch; None for the model's own limit.

    Raises:
        UsageError: There is no such folder or device, or the family takes no prompt.
        NotAuditableError: Models of its family answer no questions.
        AuditError: It is no checkpoint of a known family, or damaged.
    """
    from pfl_audit.models.open import open_model as opened

    return opened(
        str(path), device=device, download=download, prompt=prompt, precision=precision, batch_tokens=batch_tokens
    )


def open_corpus(path: str | Path, part: Part = "all") -> Corpus:
    """Read a corpus in any installed format.

    Args:
        path: Folder or file.
        part: ``red`` for the documents to ask about, ``blue`` for training documents, or ``all``.

    Raises:
        UsageError: The path does not exist.
        AuditError: The format is not known, or the corpus cannot be read.
    """
    from pfl_audit.documents.readers import open_corpus as opened

    return opened(Path(path), part)


def audit(
    model: str | Path | None,
    *,
    checks: Sequence[str] = (),
    named: Sequence[str] | None = None,
    settings: Mapping[str, Mapping[str, object]] | None = None,
    as_published: bool = False,
    inputs: Mapping[str, Mapping[str, object]] | None = None,
    out: str | Path | None = None,
    store: str | Path | None = None,
    seed: int = 0,
    device: str = "cpu",
    precision: Precision = "fp32",
    batch_tokens: int | None = None,
    download: bool = False,
    fail_on: FailOn = "leak",
    require: Sequence[str] = (),
    gates: Sequence[str] = (),
    waivers: Sequence[Waiver] = (),
    baseline: str | Path | None = None,
    reveal: bool = False,
    smallest_group: int | None = None,
    release: Release | None = None,
    title: str = "Audit of a document model",
    name: str = "audit",
    command: str = "",
    progress: Progress | None = None,
    **documents: object,
) -> Results:
    """Run every check that the model and the documents allow.

    Results are written to ``results.json`` in the folder of the run, and returned; without ``reveal`` their numbers are
    rounded, and the exact ones are in ``private/results.json``. The same call goes on where a killed one stopped.

    Args:
        model: Checkpoint folder, or None where recorded answers are given.
        checks: Ids of checks or names of attacks; all if empty.
        named: Those of them that have to be audited; all of them if None.
        settings: Attack to its settings, as ``pfl-audit explain NAME`` lists them.
        as_published: Whether settings that are not given take the papers' values where these differ from ours.
        inputs: Subject to its inputs, for those that have no argument of their own.
        out: Folder of the run; a new one in ``pfl-audit-runs`` if None.
        store: Database of answers; shared by all runs without a folder of their own if None.
        seed: Seed of all random draws.
        device: ``cuda``, ``mps``, ``cpu``, another of torch's names, or ``auto``.
        precision: Floating-point type of matrix products; a low one is compared with float32 on a sample.
        batch_tokens: Largest number of tokens in a batch; None for the models' own limits.
        download: Whether hub ids may be fetched.
        fail_on: Findings that ``Results.verdict.gate`` counts.
        require: Ids of checks or names of attacks that have to be audited.
        gates: Gates by number, such as ``"membership.* : tpr_at_1_fpr <= 2 %"``.
        waivers: Findings and gates that are accepted.
        baseline: Folder of an earlier audit; only what got worse than there counts.
        reveal: Whether names, values, pages and exact numbers are shown.
        smallest_group: Fewest units of privacy behind a number of a masked report; 5 if None.
        release: Who can reach the model, for the report; None if that is not declared.
        title: Title of the report.
        name: First part of the name of a new folder.
        command: Command line, for the report.
        progress: Progress display; none if None.
        **documents: Inputs that ``pfl-audit audit`` has as options, such as ``red``, ``pretrained``, ``forms`` or
            ``template``; a corpus may be a path or a `Corpus` in memory.

    Raises:
        UsageError: A setting, check or input does not exist or is wrong, or the folder belongs to another audit.
        NotAuditableError: The model cannot be audited with these documents.
        AuditError: The model or the documents cannot be opened.
    """
    from pfl_audit.core.plan import AuditPlan
    from pfl_audit.core.runner import run_audit
    from pfl_audit.progress import Silent

    place = Path(out) if out is not None else None
    kept = Path(store) if store is not None else shared_store(place)
    plan = AuditPlan(
        title=title,
        out=run_folder(place, name),
        model=str(model) if model is not None else None,
        inputs=_with_documents(inputs or {}, documents),
        checks=tuple(checks),
        named=tuple(named) if named is not None else None,
        settings=settings or {},
        as_published=as_published,
        store=kept,
        seed=seed,
        device=device,
        precision=precision,
        batch_tokens=batch_tokens,
        download=download,
        fail_on=fail_on,
        require=tuple(require),
        gates=tuple(gates),
        waivers=tuple(waivers),
        baseline=Path(baseline) if baseline is not None else None,
        reveal=reveal,
        smallest_group=smallest_group,
        release=release,
        command=command,
    )
    return run_audit(plan, progress or Silent())


def render(results: Results, folder: str | Path) -> list[Path]:
    """Write every installed kind of report.

    Args:
        results: Results of an audit.
        folder: Folder of the run, which holds the pictures.

    Returns:
        Paths of the reports, sorted by the names of the kinds.
    """
    from pfl_audit.core.renderers import render_all

    return render_all(results, Path(folder))


def run_folder(out: Path | None, name: str) -> Path:
    """The folder of a run, named by command and time unless it is given."""
    return out or RUNS / f"{name}-{datetime.now():%Y%m%d-%H%M%S}"


def shared_store(out: Path | None) -> Path | None:
    """Runs without a folder of their own share one store, so that the same command goes on."""
    return RUNS / "responses.sqlite" if out is None else None


def _with_documents(
    inputs: Mapping[str, Mapping[str, object]], documents: Mapping[str, object]
) -> dict[str, dict[str, object]]:
    """Inputs with the documents sorted into their subjects."""
    from pfl_audit.core.settings import shared_fields
    from pfl_audit.core.subject import SUBJECTS

    merged = {name: dict(values) for name, values in inputs.items()}
    owners = {key: name for name, one in SUBJECTS.installed().items() for key in shared_fields(one.Inputs)}
    for key, value in documents.items():
        if key not in owners:
            raise UsageError(f"audit() has no input '{key}'", f"Choose among: {', '.join(sorted(owners))}")
        merged.setdefault(owners[key], {})[key] = value
    return merged
