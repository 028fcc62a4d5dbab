"""The demo from an installed wheel, in a folder of its own, without a network; and what it must show.

It goes on where a demo was interrupted: most answers are recorded, and the others are compared with the recorded ones.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from statistics import NormalDist

import pytest

from pfl_audit.core.results import Check, Metric, Results, read_results
from tests.demo_answers import Rows, begin, differences, rows_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
NO_NETWORK = """
import socket
from pathlib import Path

def refuse(*args, **kwargs):
    Path({marker!r}).write_text(repr(args[-1:]))
    raise OSError("the network is switched off in this test")

socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, source / name)
    for name in ("pfl_audit", "attacks", "reports", "fixtures"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "--no-index",
        "-w",
        "dist",
        ".",
    ]
    subprocess.run(command, cwd=source, check=True)
    (built,) = (source / "dist").glob("*.whl")
    return built


class Installed:
    """A wheel, unpacked, and the network switched off."""

    def __init__(self, wheel: Path, folder: Path) -> None:
        self.site, self.cwd, self.marker = folder / "site", folder / "cwd", folder / "network"
        self.cwd.mkdir()
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.site)
        (self.site / "sitecustomize.py").write_text(NO_NETWORK.format(marker=str(self.marker)))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from pfl_audit.cli.main import main; main()", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(self.site)}
        environment.pop("HF_HUB_OFFLINE", None)
        return subprocess.run(command, cwd=self.cwd, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(wheel, tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def missing(installed: Installed) -> dict[str, dict[str, Rows]]:
    """Recorded answers that the demo has to ask for."""
    return begin(installed.cwd / "audit-demo")


@pytest.fixture(scope="module")
def demo(installed: Installed, missing: object) -> Results:
    done = installed.run("demo", "--out", "audit-demo", "--quiet")
    assert done.returncode == 0, done.stderr
    return read_results(installed.cwd / "audit-demo" / "private")


@pytest.fixture(scope="module")
def pretrained(installed: Installed, demo: Results) -> Results:
    """The same checks on the pre-trained model, which has seen none of the providers."""
    return read_results(installed.cwd / "audit-demo/pre-trained" / "private")


@pytest.fixture(scope="module")
def private(installed: Installed, demo: Results) -> Results:
    """The same on the model that saw them under differential privacy."""
    return read_results(installed.cwd / "audit-demo/with-privacy" / "private")


def metric(check: Check, name: str, **slice_: object) -> Metric:
    return next(found for found in check.metrics if found.name == name and found.slice == slice_)


def by_id(results: Results) -> dict[str, Check]:
    return {check.id: check for check in results.checks}


def attacks(results: Results) -> list[Metric]:
    parts = [check for check in results.checks if check.part_of and check.status == "ran"]
    found = [one for check in parts for one in check.metrics]
    return [one for one in found if one.name == "accuracy" and one.slice == {"s": 5, "model": "target"}]


def test_the_wheel_holds_one_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"pfl_audit"}
    for name in ("attacks/membership/attack.py", "reports/templates/report.html.j2", "py.typed"):
        assert f"pfl_audit/{name}" in names
    for name in (
        "vt5-finetuned/model.safetensors",
        "vt5-pretrained/spiece.model",
        "vt5-out/model.safetensors",
        "vt5-private/model.safetensors",
        "vt5-private/training.json",
        "red/corpus.jsonl",
        "blue-secrets/corpus.jsonl",
        "donut/model.safetensors",
        "templates/form-01/template.png",
    ):
        assert f"pfl_audit/fixtures/{name}" in names


def test_demo_runs_without_a_network_and_writes_its_report(installed: Installed, demo: Results) -> None:
    assert not installed.marker.exists(), installed.marker.read_text()
    assert demo.verdict.status == "leaks"
    full = json.loads((installed.cwd / "audit-demo/private/provenance.json").read_text())
    assert str(installed.site) in full["paths"][0]
    assert demo.target.path == "vt5-finetuned"
    report = (installed.cwd / "audit-demo/report.html").read_text()
    assert "The embedded demonstration model gives away training data" in report
    assert {check.status for check in demo.checks if check.required and check.part_of is None} == {"ran"}
    skipped = {check.id for check in demo.checks if check.required and check.status != "ran"}
    assert skipped == {"membership.lira", "membership.rmia"}  # they need reference models


@pytest.mark.parametrize(("store", "table"), [("responses.sqlite", "responses"), ("forms.sqlite", "records")])
def test_the_models_answer_as_recorded(
    installed: Installed, missing: dict[str, dict[str, Rows]], demo: Results, store: str, table: str
) -> None:
    wanted, found = missing[store][table], rows_of(installed.cwd / "audit-demo" / store)[table]
    if not wanted.keys() & found.keys():
        pytest.skip("the recorded answers are of other models or pages: python -m tests.demo_answers")
    assert differences(wanted, found) == 0
    assert len(wanted) > 90


def test_demo_reads_a_filled_form_out_of_a_gradient(installed: Installed, demo: Results) -> None:
    found = read_results(installed.cwd / "audit-demo/inversion")
    assert [check.id for check in found.checks] == ["inversion.text", "inversion.lbfgs"]
    asked, pixels = found.checks
    assert metric(asked, "queries exact").value == 1.0
    words = metric(pixels, "words exact", place="private fields")
    assert words.value is not None
    assert words.value >= 0.7
    assert words.chance is not None
    assert words.chance < 0.1
    psnr = metric(pixels, "PSNR", place="private fields").value
    assert psnr is not None
    assert psnr > 20
    assert (installed.cwd / f"audit-demo/inversion/{pixels.evidence[0].picture}").is_file()


def test_red_has_eighty_providers_of_each_class(demo: Results) -> None:
    assert demo.datasets[0].members >= 80
    assert demo.datasets[0].non_members >= 80
    assert not demo.datasets[0].problems


def test_fine_tuned_model_memorised_provider_names(demo: Results) -> None:
    gap = metric(by_id(demo)["memorization.provider_name"], "ACC gap", pages="all pages", model="target")
    assert gap.value is not None
    assert gap.ci is not None
    assert gap.value >= 0.05
    assert gap.ci[0] > 0


def test_fine_tuned_model_gives_its_providers_away(demo: Results) -> None:
    best = max((found for found in attacks(demo) if found.value and found.ci), key=lambda found: found.value or 0)
    assert best.value is not None
    assert best.ci is not None
    assert best.value >= 0.62
    assert best.ci[0] > 0.5
    finding = by_id(demo)["membership.provider"].finding
    assert finding is not None
    assert finding.level == "leak"


def test_the_models_read_and_the_attacks_are_in_the_range_of_the_paper(demo: Results) -> None:
    """An attack on a lookup table, which knows trained pages and reads no others, proves nothing."""
    read = by_id(demo)["memorization.generalisation"]
    for model in ("target", "control"):
        others = metric(read, "ACC non-members", pages="all pages", model=model).value
        assert others is not None
        assert others > 0.6
    azk = by_id(demo)["membership.azk"]
    target, control = (metric(azk, "balanced accuracy", s=5, model=model).value for model in ("target", "control"))
    assert target is not None
    assert control is not None
    assert 0.55 < target < 0.75
    assert control < 0.55


def test_pretrained_model_shows_neither(demo: Results, pretrained: Results) -> None:
    control = metric(by_id(demo)["memorization.provider_name"], "ACC gap", pages="all pages", model="pre-trained")
    gap = metric(by_id(pretrained)["memorization.provider_name"], "ACC gap", pages="all pages", model="target")
    assert holds(control, 0.0)
    assert holds(gap, 0.0)
    assert_all_at_chance(attacks(pretrained))
    skipped = [check for check in pretrained.checks if check.status != "ran"]  # what needs a pre-trained model
    assert f"{len(skipped)} of {len(pretrained.checks)} checks did not run" in pretrained.verdict.summary
    assert not [check for check in pretrained.checks if check.finding and check.finding.level in ("leak", "weak")]


def test_private_model_shows_neither_and_its_claim_holds(demo: Results, private: Results) -> None:
    gap = metric(by_id(private)["memorization.provider_name"], "ACC gap", pages="all pages", model="target")
    assert holds(gap, 0.0)
    assert len(attacks(private)) == len(attacks(demo))
    assert_all_at_chance(attacks(private))
    assert not [check for check in private.checks if check.finding and check.finding.level in ("leak", "weak")]
    review = private.target.claim_review
    assert review is not None
    assert review.claim is not None
    assert review.worth == "holds"
    assert review.claim.accounting == "valid"
    assert review.claim.delta == 1e-5
    assert 7.9 < review.claim.epsilon <= 8.0
    assert private.target.training_claim is not None
    assert private.target.training_claim["clients"] == 10


def test_utility_stands_beside_what_is_given_away(demo: Results, pretrained: Results, private: Results) -> None:
    scores = [
        metric(by_id(found)["memorization.generalisation"], "ACC", pages="all pages", model="target").value
        for found in (demo, pretrained, private)
    ]
    assert all(score is not None and 0 < score < 1 for score in scores)
    assert scores[0] == max(scores, key=lambda score: score or 0)


def test_three_stories_stand_side_by_side(installed: Installed, demo: Results) -> None:
    page = (installed.cwd / "audit-demo/comparison.html").read_text()
    for words in ("Fine-tuned demo model", "Pre-trained demo model", "Private demo model", "ACC on new pages"):
        assert words in page
    for folder in ("pre-trained", "with-privacy"):
        assert (installed.cwd / "audit-demo" / folder / "report.html").is_file()
        assert f'href="{folder}/report.html"' in page


def test_no_report_lies_among_what_is_to_be_deleted(installed: Installed, demo: Results) -> None:
    reports = {path.relative_to(installed.cwd).as_posix() for path in installed.cwd.rglob("report.html")}
    folders = ("", "pre-trained/", "with-privacy/", "reconstruction/", "inversion/")
    assert reports == {f"audit-demo/{folder}report.html" for folder in folders}


def holds(found: Metric, value: float) -> bool:
    assert found.ci is not None
    return found.ci[0] <= value <= found.ci[1]


def assert_all_at_chance(found: list[Metric]) -> None:
    """Each interval is widened so that all of them hold at once, as a finding does that rests on several attacks."""
    assert found
    wider = NormalDist().inv_cdf(1 - 0.025 / len(found)) / NormalDist().inv_cdf(1 - 0.025)
    for one in found:
        assert one.value is not None
        assert one.chance is not None
        assert one.ci is not None
        assert abs(one.value - one.chance) <= wider * (one.ci[1] - one.ci[0]) / 2


def test_fields_that_were_scrubbed_come_back(demo: Results, installed: Installed) -> None:
    found = read_results(installed.cwd / "audit-demo" / "reconstruction" / "private")
    assert [check.id for check in found.checks] == [
        f"reconstruction.{name}" for name in ("guesses", "one_shot", "multi_shot")
    ]
    assert [check.finding.level for check in found.checks if check.finding] == ["leak", "weak", "weak"]
    guesses, one_shot, multi_shot = found.checks

    private: dict[str, object] = {"model": "target", "fields": "private forms", "with": "the attack"}
    attack = metric(one_shot, "perfect reconstructions", **private)
    alone = metric(one_shot, "perfect reconstructions", **{**private, "with": "public knowledge alone"})
    assert attack.value is not None
    assert alone.value is not None
    assert attack.value >= 0.2
    assert attack.value >= 10 * alone.value
    within = [
        metric(guesses, "secrets put back", **{**private, "with": attacker, "guesses": k}).value
        for attacker in ("the attack", "public knowledge alone")
        for k in (1, 8, 64)
    ]
    assert within[:3] == pytest.approx([0.5, 0.8, 0.9], abs=0.1)
    assert within[3:] == pytest.approx([0, 0, 0], abs=0.02)
    first = metric(multi_shot, "PR of the first 10 % over the average", **private)
    assert first.ci is not None
    assert first.ci[0] > 0
    new = metric(one_shot, "improvement factor", **{**private, "fields": "new forms"})
    assert new.value == pytest.approx(1, abs=0.1)
