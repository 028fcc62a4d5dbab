import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pfl_audit.core.plan import AuditPlan
from pfl_audit.core.results import Results, read_results
from pfl_audit.core.runner import AuditRun, run_audit
from pfl_audit.core.store import ResponseStore
from pfl_audit.documents.corpus import Corpus
from pfl_audit.documents.readers import open_corpus
from pfl_audit.documents.scrubbing.questions import scrubbed_questions
from pfl_audit.errors import AuditError, NotAuditableError, StorageError, UsageError
from pfl_audit.models.protocol import Response
from pfl_audit.progress import Silent
from tests.core.plans import changed

Make = Callable[[int], Path]


def _plan(make_checkpoint: Make, corpus_folder: Path, folder: Path) -> AuditPlan:
    return AuditPlan(
        title="Test",
        out=folder / "run",
        model=str(make_checkpoint(0)),
        inputs={
            "questions": {"red": corpus_folder, "pretrained": str(make_checkpoint(1)), "blue": corpus_folder},
        },
        settings={"membership": {"seeds": 2, "s": (0,)}},
        release="internal",
        command="pfl-audit audit",
    )


@pytest.mark.parametrize(
    ("given", "required"),
    [
        ({}, set()),
        ({"checks": ("membership",)}, {"membership.provider", "membership.azk"}),
        ({"checks": ("membership.azk",)}, {"membership.provider", "membership.azk"}),
        ({"checks": ("membership", "docmia"), "named": ("docmia",)}, {"docmia.document"}),
        ({"require": ("membership.provider",)}, {"membership.provider"}),
    ],
)
def test_what_is_required(tmp_path: Path, given: dict[str, tuple[str, ...]], required: set[str]) -> None:
    audit = AuditRun(AuditPlan(title="", out=tmp_path, **given), Silent())  # type: ignore[arg-type]
    asked = {"membership.provider", "membership.azk", "docmia.document"}
    assert {key for key, spec in audit.specs.items() if key in asked and audit.is_required(spec)} == required


@pytest.fixture
def plan(make_checkpoint: Make, corpus_folder: Path, tmp_path: Path) -> AuditPlan:
    return _plan(make_checkpoint, corpus_folder, tmp_path)


@pytest.fixture(scope="module")
def audited(
    make_checkpoint: Make, corpus_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[AuditPlan, Results]:
    """Every check that the models allow, and what it gave."""
    plan = _plan(make_checkpoint, corpus_folder, tmp_path_factory.mktemp("audited"))
    plan = changed(plan, settings={"membership": {"seeds": 2, "s": (0, 5), "ablate": True}})
    return plan, run_audit(plan, Silent())


def test_a_whole_audit(audited: tuple[AuditPlan, Results]) -> None:
    plan, results = audited
    assert read_results(plan.out) == results
    assert {check.status for check in results.checks} <= {"ran", "skipped"}
    left_out = [check.id for check in results.checks if check.status != "ran" and check.family != "memorization"]
    assert not any(check.required for check in results.checks)  # nothing was named
    assert len(results.checks) == 52
    counts = {"canaries": 1, "docmia": 7, "inversion": 10, "membership": 4, "reconstruction": 3}
    assert [name.split(".")[0] for name in left_out] == [name for name, count in counts.items() for _ in range(count)]
    assert {check.subject for check in results.checks} == {"questions", "forms", "gradients"}
    whole, azk = (next(c for c in results.checks if c.id == f"membership.{name}") for name in ("provider", "azk"))
    assert [table.title.split()[0] for table in whole.tables] == ["Attacks", "Accuracy", "Ablation"]
    assert len(whole.tables[2].rows) == 7
    assert whole.finding is not None
    assert (azk.finding, azk.part_of) == (None, "membership.provider")
    assert {metric.slice["model"] for metric in azk.metrics} == {"target", "pre-trained"}
    assert json.loads((plan.out / "run.json").read_text())["status"] == "success"
    kept = json.loads((plan.out / "private/resamples.json").read_text())["numbers"]
    assert "membership.provider" in {one["check"] for one in kept}
    assert results.release == "internal"
    assert not results.target.demonstration
    assert [data.audited for data in results.datasets] == ["the model"]
    assert [check.id for check in results.checks if check.review is None] == ["membership.blind"]
    findings = [check.finding for check in results.checks if check.finding]
    assert all(finding.plain for finding in findings)
    assert all(finding.remedies for finding in findings if finding.level in ("leak", "weak") and finding.success)


@pytest.mark.slow
def test_reference_models_are_asked_and_listed(plan: AuditPlan, make_checkpoint: Make) -> None:
    names = (str(make_checkpoint(2)), str(make_checkpoint(3)))
    plan = changed(plan, blue=None, references=names, checks=("membership.lira", "membership.rmia"))
    results = run_audit(plan, Silent())
    assert {check.id: check.status for check in results.checks} == dict.fromkeys(
        ("membership.lira", "membership.rmia", "membership.provider"), "ran"
    )
    assert [Path(one.path).name for one in results.references] == [Path(name).name for name in names]
    assert len({one.sha256 for one in (results.target, *results.references)}) == 3
    assert read_results(plan.out) == results
    written = (plan.out / "results.json").read_text()
    assert not any(name in written for name in names)
    assert all(name in (plan.out / "private/provenance.json").read_text() for name in names)
    with pytest.raises(UsageError, match="other settings"):
        run_audit(changed(plan, references=names[::-1]), Silent())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seeds", "message"), [((2,), "no spread"), ((2, 2), "are the same"), ((0, 2), "are the same")]
)
def test_reference_models_that_show_no_spread(
    plan: AuditPlan, make_checkpoint: Make, seeds: tuple[int, ...], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        run_audit(changed(plan, references=tuple(str(make_checkpoint(seed)) for seed in seeds)), Silent())


def test_what_is_missing_becomes_a_row_with_its_reason(plan: AuditPlan) -> None:
    results = run_audit(
        changed(plan, pretrained=None, blue=None, checks=("membership", "memorization.unprompted")), Silent()
    )
    by_id = {check.id: check for check in results.checks}
    for name in ("apk", "apk-g4", "apk-g4-ratio", "apk-vote", "likelihood-ratio", "likelihood-ratio-g4"):
        check = by_id[f"membership.{name}"]
        assert check.status == "skipped"
        assert "needs pre-trained model" in str(check.reason)
        assert "the audit has" in str(check.reason)
    assert by_id["membership.azk"].status == "ran"
    assert by_id["memorization.unprompted"].finding is not None
    assert by_id["memorization.unprompted"].finding.level == "unresolved"
    assert results.verdict.status == "incomplete"


def test_a_second_run_asks_nothing_and_says_the_same(plan: AuditPlan) -> None:
    plan = changed(plan, checks=("membership.azk", "memorization.provider_name"))
    first = run_audit(plan, Silent())
    again = run_audit(plan, Silent())
    assert json.loads((plan.out / "run.json").read_text())["queries_asked"] == 0
    assert again.checks == first.checks
    assert again.verdict == first.verdict


def test_recorded_answers_of_a_vendor(plan: AuditPlan, corpus_folder: Path, tmp_path: Path) -> None:
    red = open_corpus(corpus_folder, "red")
    scrubbed = scrubbed_questions(red, "provider_name", seed=0)
    lines = [json.dumps({"id": query.id, "answer": query.answers[0]}) for query in (*red.queries, *scrubbed.queries)]
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))
    vendor = changed(plan, model=None, answers=tmp_path / "answers.jsonl", pretrained=None, blue=None)
    results = run_audit(changed(vendor, checks=("membership", "memorization.provider_name")), Silent())
    by_id = {check.id: check for check in results.checks}
    assert by_id["membership.azk"].status == "ran"
    assert "needs" in str(by_id["membership.azk-vote"].reason)
    exact = {check.id: check for check in read_results(vendor.out / "private").checks}
    acc = next(m for m in exact["memorization.provider_name"].metrics if m.name == "ACC members")
    assert acc.value == 1.0


def test_names_and_values_stay_out_of_everything_but_the_private_folder(
    audited: tuple[AuditPlan, Results], corpus_folder: Path
) -> None:
    plan, results = audited
    red = open_corpus(corpus_folder, "red")
    text = (plan.out / "results.json").read_text().lower() + (plan.out / "run.json").read_text().lower()
    for provider in red.providers:
        assert provider.lower() not in text
    for query in red.queries:
        if query.key in ("tax_number", "provider_email", "provider_phone"):
            assert query.answers[0] not in text
    assert not results.provenance.revealed
    for path in plan.out.rglob("*"):
        if path.is_file():
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"model": None}, UsageError, "one of --model, --answers and --endpoint"),
        ({"checks": ("nonsense",)}, UsageError, "no check 'nonsense'"),
        ({"settings": {"membership": {"nonsense": 1}}}, UsageError, "setting 'nonsense' of membership"),
        ({"settings": {"membership": {"seeds": 0}}}, UsageError, "setting 'seeds' of membership"),
        ({"red": Path("/nowhere")}, AuditError, "does not exist"),
        ({"model": "/nowhere"}, UsageError, "no local folder"),
    ],
)
def test_bad_plans(plan: AuditPlan, change: dict[str, object], error: type[AuditError], message: str) -> None:
    with pytest.raises(error, match=message):
        run_audit(changed(plan, **change), Silent())
    assert not (plan.out / "results.json").exists()


def test_an_estimate_counts_no_question_of_a_check_that_waits_for_a_request(
    plan: AuditPlan, red: Corpus, tmp_path: Path
) -> None:
    def planned(**changes: object) -> int:
        with ResponseStore(tmp_path / "store.sqlite") as store:
            return AuditRun(changed(plan, **changes), Silent()).job(store).planned(red)

    guesses = ("memorization.guesses",)
    assert planned(checks=guesses) > 0
    assert planned(require=guesses) == planned() + planned(checks=guesses)


def test_another_audit_in_the_same_folder_is_refused(plan: AuditPlan) -> None:
    run_audit(changed(plan, checks=("membership.azk",)), Silent())
    before = (plan.out / "results.json").read_bytes()
    with pytest.raises(UsageError, match="other settings"):
        run_audit(changed(plan, checks=("membership.azk",), seed=1), Silent())
    assert (plan.out / "results.json").read_bytes() == before


def one_class(folder: Path, target: Path) -> Path:
    import shutil

    shutil.copytree(folder, target)
    (target / "imdb/red/red_test_negative.npy").unlink()
    return target


def test_a_red_part_with_one_class_cannot_be_audited_for_membership(plan: AuditPlan, tmp_path: Path) -> None:
    red = one_class(Path(str(plan.inputs["questions"]["red"])), tmp_path / "one")
    results = run_audit(changed(plan, red=red, blue=None, checks=("membership.azk",)), Silent())
    assert [check.id for check in results.checks] == ["membership.azk", "membership.provider"]
    for check in results.checks:
        assert check.status == "skipped"
        assert "10 to 19 member and fewer than 5 non-member providers" in str(check.reason)


def test_pages_that_were_trained_on_prove_nothing(plan: AuditPlan, corpus_folder: Path, tmp_path: Path) -> None:
    from pfl_audit.documents.writers import write_jsonl

    blue = open_corpus(corpus_folder, "blue").where(lambda query: "train" in query.document.split)
    mixed = replace(blue, membership={**blue.membership})
    write_jsonl(mixed, tmp_path / "mixed")
    text = (tmp_path / "mixed/corpus.jsonl").read_text().replace('"split": "blue_train', '"split": "red_train')
    (tmp_path / "mixed/corpus.jsonl").write_text(text)
    with pytest.raises(NotAuditableError, match="were trained on"):
        run_audit(changed(plan, red=tmp_path / "mixed"), Silent())


@pytest.mark.slow
def test_a_page_that_cannot_be_read_is_listed_under_a_pseudonym(plan: AuditPlan, tmp_path: Path) -> None:
    import shutil

    red = tmp_path / "broken"
    shutil.copytree(str(plan.inputs["questions"]["red"]), red)
    broken = next((red / "images/red").iterdir())
    broken.write_bytes(b"no image")
    one = changed(plan, red=red, blue=None, checks=("membership.azk",))
    assert run_audit(one, Silent()).datasets[0].problems == []  # fewer than the smallest group
    (problem,) = read_results(one.out / "private").datasets[0].problems
    assert problem.startswith("page ")
    assert "its page image cannot be used" in problem
    assert broken.stem not in problem
    assert str(tmp_path) not in problem


def test_an_empty_corpus(plan: AuditPlan, tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text("")
    with pytest.raises(NotAuditableError, match="holds no question"):
        run_audit(changed(plan, red=tmp_path), Silent())


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("record", "text"),
    [
        ('{"privacy": "none"}', None),
        ('{"privacy": {"epsilon": NaN}}', "cannot be read"),
        ("[" * 100_000, "cannot be read"),
    ],
)
def test_whatever_the_training_record_holds_the_audit_ends(
    plan: AuditPlan, tmp_path: Path, record: str, text: str | None
) -> None:
    model = tmp_path / "model"
    shutil.copytree(str(plan.model), model)
    (model / "training.json").write_text(record)
    asked = changed(plan, model=str(model), checks=("memorization.unprompted",))
    review = run_audit(asked, Silent()).target.claim_review
    assert (review is None) == (text is None)
    assert review is None or review.text.startswith(str(text))


def test_a_full_disk_below_the_store_ends_the_run_and_the_next_goes_on(
    plan: AuditPlan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = ("memorization.provider_name", "memorization.provider_email")
    plan = changed(plan, checks=checks, pretrained=None, blue=None, store=tmp_path / "store.sqlite")
    with monkeypatch.context() as patch:
        put = ResponseStore.put

        def fill(self: ResponseStore, responses: Mapping[str, Response]) -> None:
            put(self, {key: replace(response, answer="x" * 5000) for key, response in responses.items()})
            self._db.execute("PRAGMA max_page_count=1")  # as many as there are now

        patch.setattr(ResponseStore, "put", fill)
        with pytest.raises(StorageError, match=r"store\.sqlite cannot be used: .*full\. Free some space") as caught:
            run_audit(plan, Silent())
    assert caught.value.exit_code == 2
    cut = json.loads((plan.out / "run.json").read_text())
    assert cut["status"] == "error"
    assert "Free some space" in cut["reason"]
    assert not (plan.out / "results.json").exists()
    with ResponseStore(tmp_path / "store.sqlite") as store:
        kept = len(store)
    assert kept > 0
    results = run_audit(plan, Silent())
    assert results.provenance.resumed
    done = json.loads((plan.out / "run.json").read_text())
    assert done["status"] == "success"
    assert done["queries_reused"] == kept


def test_a_run_that_fails_before_it_asked_leaves_nothing(plan: AuditPlan, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    bad = (
        changed(plan, model=str(tmp_path / "nowhere")),
        changed(plan, red=tmp_path / "nowhere"),
        changed(plan, pretrained=str(tmp_path / "nowhere"), store=tmp_path / "stores/x.sqlite"),
    )
    for one in bad:
        with pytest.raises(AuditError):
            run_audit(one, Silent())
        assert set(tmp_path.iterdir()) == before


def test_folders_of_a_run_are_its_owners(plan: AuditPlan, tmp_path: Path) -> None:
    out = tmp_path / "runs/one"
    run_audit(changed(plan, out=out, checks=("memorization.provider_name",)), Silent())
    folders = [tmp_path / "runs", out, *(path for path in out.rglob("*") if path.is_dir())]
    assert {path.name for path in folders} >= {"runs", "one", "private"}
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
    files = [path for path in out.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
