"""``--shard``: several processes that know nothing of each other ask what one would, and no question twice."""

import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pfl_audit.attacks.questions.engine import QueryEngine
from pfl_audit.cli.main import run
from pfl_audit.core import shares
from pfl_audit.core.redaction import Redactor
from pfl_audit.core.sharding import Awaited, ElsewhereError, Share, read_share
from pfl_audit.core.store import ResponseStore
from pfl_audit.core.store_merge import merge_stores
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.document import Document, Query
from pfl_audit.errors import AuditError, UsageError
from pfl_audit.models.protocol import Guess, Score
from pfl_audit.progress import Silent
from tests.core.fakes import FakeModel

Make = Callable[[int], Path]
_TIMES = ("started", "seconds", "resumed", "command")
OF = 2


def test_batches_are_those_of_one_process(red: Corpus, tmp_path: Path) -> None:
    def batches(number: int, of: int, half: bool = False) -> list[tuple[str, ...]]:
        seen: list[tuple[str, ...]] = []

        class Noted(FakeModel):
            def respond(self, queries: Any) -> Any:
                seen.append(tuple(query.id for query in queries))
                return super().respond(queries)

            def batch_size(self, cost: int) -> int:
                return 4

        with ResponseStore(tmp_path / f"{number}-{of}.sqlite") as store:
            engine = QueryEngine(Noted(), store, Silent(), share=Share(number, of) if of > 1 else None)
            engine.ask(red.queries[:9], "some")
            engine.ask(red.queries, "all")
        return seen

    whole = batches(1, 1)
    parts = [batches(number + 1, OF) for number in range(OF)]
    assert sorted(batch for part in parts for batch in part) == sorted(whole)
    assert min(map(len, parts)) >= len(whole) // OF - 1
    assert batches(2, OF) == []  # the same store again


def test_who_reads_what_others_ask_cannot_go_on(red: Corpus, tmp_path: Path) -> None:
    with ResponseStore(tmp_path / "x.sqlite") as store:
        answers = QueryEngine(FakeModel(), store, Silent(), share=Share(1, 2)).ask(red.queries, "x")
        for read in (
            len,
            list,
            dict,
            lambda found: found.get("x"),
            lambda found: "x" in found,
            lambda found: {**found},
        ):
            with pytest.raises(ElsewhereError):
                read(answers.responses)
        QueryEngine(FakeModel(), store, Silent(), share=Share(2, 2)).ask(red.queries, "x")
        again = QueryEngine(FakeModel(), store, Silent(), share=Share(1, 2)).ask(red.queries, "x")
        assert len(again.responses) == len(red.queries)
    assert isinstance(answers.responses, Awaited)


def test_a_page_that_cannot_be_read_is_awaited_of_no_share(page: Callable[..., Document], tmp_path: Path) -> None:
    queries = [Query(f"q{number}", page("a", name=f"p{number}_1"), "?", ("a",)) for number in range(8)]
    image = queries[3].document.image
    assert image is not None
    image.path.write_bytes(b"no image")
    with ResponseStore(tmp_path / "x.sqlite") as store:
        for number in (1, 2, 1, 2):
            engine = QueryEngine(Unreadable(), store, Silent(), share=Share(number, 2))
            answers = engine.ask(queries, "x")
            losses = engine.candidates(dict.fromkeys(queries, ("a", "b")), "x")
            guesses = engine.likely_answers(queries, 2, "x")
    for found in (answers.responses, losses, guesses):
        assert set(found) == {query.id for query in queries} - {"q3"}


class Unreadable(FakeModel):
    """Opens the picture, whatever it is asked."""

    def candidate_losses(self, query: Query, values: Sequence[str]) -> list[Score]:
        self.respond([query])
        return [Score(1.0, 1) for _ in values]

    def guess(self, queries: Sequence[Query], width: int) -> list[list[Guess]]:
        return [[Guess("x", 1.0, 1)] for _ in self.respond(queries)]


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2", "1/2/3", "1/99999", ""])
def test_no_share(text: str) -> None:
    with pytest.raises(UsageError, match="--shard"):
        read_share(text)


def arguments(make: Make, corpus: Path, store: Path, *more: object) -> list[str]:
    checks = ("memorization.provider_name", "memorization.generalisation", "membership.provider")
    named = [word for check in checks for word in ("--check", check)]
    given = ["--model", make(0), "--pretrained", make(1), "--red", corpus, "--store", store, *more]
    return ["audit", *named, *map(str, given), "--set", "membership.seeds=1", "--set", "membership.s=[0]", "-q"]


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    for name in _TIMES:
        found["provenance"].pop(name)
    return found


@pytest.mark.slow
def test_an_audit_of_merged_shares_asks_nothing_and_says_the_same(
    make_checkpoint: Make, corpus_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    merged = tmp_path / "all.sqlite"
    stores = [tmp_path / f"shard-{number}.sqlite" for number in range(1, OF + 1)]
    asked = []
    for _ in range(3):
        done = []
        for number, store in enumerate(stores, 1):
            if merged.exists():
                merge_stores(store, [merged])
            words = arguments(make_checkpoint, corpus_folder, store, "--shard", f"{number}/{OF}", "--json")
            assert run(words) == 0
            done.append(json.loads(capsys.readouterr().out))
        asked.append(sum(one["asked"] for one in done))
        merge_stores(merged, stores)
    assert asked[0] > 2 * sum(asked[1:])

    assert run(arguments(make_checkpoint, corpus_folder, merged, "--reveal", "--out", tmp_path / "a")) in (0, 1, 3)
    assert json.loads((tmp_path / "a/run.json").read_text())["queries_asked"] == 0
    alone = tmp_path / "alone.sqlite"
    assert run(arguments(make_checkpoint, corpus_folder, alone, "--reveal", "--out", tmp_path / "b")) in (0, 1, 3)
    assert json.loads((tmp_path / "b/run.json").read_text())["queries_asked"] == sum(asked)
    assert results(tmp_path / "a") == results(tmp_path / "b")
    assert rows(merged) == rows(alone)


def rows(path: Path) -> list[object]:
    with sqlite3.connect(path) as database:
        return database.execute("SELECT * FROM responses ORDER BY key").fetchall()


def test_shares_of_what_is_not_shared(tmp_path: Path, corpus_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--red", str(corpus_folder), "--shard", "1/2", "-q"]
    assert run(["audit", "--model", "none", *given]) == 4
    assert "--store" in capsys.readouterr().err
    answers = tmp_path / "answers.jsonl"
    answers.write_text("{}")
    assert run(["audit", "--answers", str(answers), *given, "--store", str(tmp_path / "x.sqlite")]) == 4
    assert "Leave --shard out" in capsys.readouterr().err
    assert not (tmp_path / "x.sqlite").exists()


@pytest.mark.parametrize("option", ["--out", "--sarif", "--pdf", "--dossier"])
def test_a_share_refuses_files_that_it_never_writes(
    option: str, tmp_path: Path, corpus_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--red", str(corpus_folder), "--store", str(tmp_path / "x.sqlite"), "--shard", "1/2", "-q"]
    assert run(["audit", "--model", "none", *given, option, str(tmp_path / "x")]) == 4
    assert f"{option} means nothing with --shard, which writes a store alone" in capsys.readouterr().err
    assert not [*tmp_path.glob("x*")]


def test_shares_of_several_targets_of_a_file_write_stores_alone(
    make_checkpoint: Make, corpus_folder: Path, tmp_path: Path
) -> None:
    """The file names the folder of the last audit."""
    targets = "".join(f'[[targets]]\nname = "m{at}"\nmodel = {json.dumps(str(make_checkpoint(at)))}\n' for at in (0, 1))
    (tmp_path / "audit.toml").write_text(
        f"out = {json.dumps(str(tmp_path / 'out'))}\nred = {json.dumps(str(corpus_folder))}\n"
        f'check = ["memorization.provider_name"]\n{targets}'
    )
    file, store = str(tmp_path / "audit.toml"), str(tmp_path / "s.sqlite")
    assert run(["run", file, "--store", store, "--shard", "1/2", "-q"]) == 0
    assert Path(store).is_file()
    assert not (tmp_path / "out").exists()


def test_a_share_says_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    class Told(Silent):
        def say(self, text: str) -> None:
            told.append(text)

    def run(context: object, settings: object) -> list[Any]:
        raise AuditError("the model gave something else")

    audit: Any = SimpleNamespace(
        not_run=dict, specs={}, common=lambda *_: _Common(frozenset({"a.b"})), progress=Told(), settings={"a": None},
        attacks={"a": SimpleNamespace(subject="s", run=run)}, wanted_of=lambda *_: [SimpleNamespace(id="a.b")],
        opened={"s": SimpleNamespace(context=lambda common: common)},
    )  # fmt: skip
    assert shares._ask(audit, Redactor("")) == ()
    assert told == ["a: the model gave something else."]


@dataclass(frozen=True)
class _Common:
    checks: frozenset[str]
