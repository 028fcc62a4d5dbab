"""The Python interface: the same audit as on the command line, with documents in memory too."""

from collections.abc import Callable
from pathlib import Path

import pytest

import pfl_audit
from pfl_audit.cli.main import run
from pfl_audit.core.results import Results, read_results
from pfl_audit.documents.corpus import Corpus
from pfl_audit.errors import UsageError

CHECKS = ("membership.azk", "memorization.provider_name")


def measured(results: Results) -> list[tuple[object, ...]]:
    """What was found; pseudonyms and pictures differ from store to store."""
    return [(check.id, check.status, check.metrics, check.curves, check.finding) for check in results.checks]


@pytest.mark.slow
def test_the_command_line_and_the_function_find_the_same(
    corpus_folder: Path, red: Corpus, make_checkpoint: Callable[[int], Path], tmp_path: Path
) -> None:
    model = make_checkpoint(0)
    settings = {"membership": {"seeds": 2, "s": (0,)}}
    found = pfl_audit.audit(model, red=corpus_folder, checks=CHECKS, settings=settings, out=tmp_path / "api")
    reports = pfl_audit.render(found, tmp_path / "api")
    assert [path.name for path in reports] == ["report.html"]
    given = ["--model", str(model), "--red", str(corpus_folder), "--check", CHECKS[0], "--check", CHECKS[1]]
    more = ["--set", "membership.seeds=2", "--set", "membership.s=[0]", "--out", str(tmp_path / "cli"), "-q"]
    run(["audit", *given, *more])
    assert measured(read_results(tmp_path / "cli")) == measured(found)
    held = pfl_audit.audit(model, red=red, checks=CHECKS, settings=settings, out=tmp_path / "memory")
    assert measured(held) == measured(found)
    assert held.datasets[0].path == "in memory"
    assert "membership.azk" in found._repr_html_() or "provider name" in found._repr_html_()


def test_opening(corpus_folder: Path, make_checkpoint: Callable[[int], Path]) -> None:
    model, corpus = pfl_audit.open_model(make_checkpoint(0)), pfl_audit.open_corpus(corpus_folder, "red")
    (response,) = model.respond(corpus.queries[:1])
    assert isinstance(response.answer, str)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rde": "x"}, "no input 'rde'. Choose among: .*red"),
        ({}, "nothing to audit the model with"),
        ({"settings": {"membershp": {}}}, "no attack 'membershp'"),
        ({"inputs": {"questoins": {}}}, "no subject 'questoins'"),
        ({"red": 3}, "the setting 'red"),
    ],
)
def test_mistakes(arguments: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        pfl_audit.audit("ckpt", out=tmp_path / "run", **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()
