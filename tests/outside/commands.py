"""Every command on the smallest inputs. ``python -m tests.outside.commands PLACE SECONDS [NAME ...]`` runs them.

One process runs them all and stays for SECONDS after the last: telemetry waits before it calls.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


def commands(place: Path) -> dict[str, list[str]]:
    """Arguments by the command's name; a command finds what those before it have made."""
    out, corpus, forms = place / "out", place / "in/corpus", place / "out/forms"
    ask = ["--model", place / "in/vt5-0", "--red", corpus]
    gradient = ["--model", place / "in/donut", "--template", place / "in/t.png", "--iterations", 2]
    small = ["--private", 4, "--public", 4, "--validation", 3]
    rows: dict[str, list[object]] = {
        "data make": ["--out", out / "corpus", "--members", 4, "--non-members", 4, "--clients", 2,
                      "--red-providers", 1, "--red-documents", 1, "--documents", 1, "--questions", 2],
        "data make-forms": ["--out", forms, *small],
        "data check": [forms],
        "data convert": [corpus, "--out", out / "safe"],
        "data partition": [corpus, "--by", "provider", "--clients", 2, "--out", out / "partition"],
        "data import": ["fcc-adbuy", place / "in/fcc", "--out", out / "fcc"],
        "data questions": ["--out", out / "questions.toml"],
        "data make-documents": ["--providers", 1, "--out", out / "documents"],
        "list": [],
        "explain": ["membership"],
        "schema": [],
        "init": [place / "in/embedded", "--out", out / "audit.toml"],
        "validate": [place / "in/audit.toml"],
        "account": ["--epsilon", 8, "--sampling-rate", 0.2, "--steps", 5, "--delta", 1e-5],
        "inspect": [place / "in/vt5-0", "--open"],
        "invert": [*gradient, "--out", out / "invert"],
        "defend": [*gradient, "--budget", 8, "--steps", 1, "--out", out / "defend"],
        "audit": ["--model", place / "in/vt5-0", "--pretrained", place / "in/vt5-1", "--red", out / "corpus", "--ocr",
                  "--blue", out / "corpus", "--check", "memorization.provider_name", "--out", out / "audit"],
        "memorize": [*ask, "--key", "provider_name", "--out", out / "memorize"],
        "store merge": [out / "all.sqlite", out / "memorize/responses.sqlite"],
        "mia": [*ask, "--check", "membership.azk", "--seeds", 1, "--out", out / "mia"],
        "run": [place / "in/audit.toml", "--out", out / "run", "--sarif", out / "a.sarif", "--junit", out / "a.xml",
                "--model-card", out / "card.md", "--dossier", out / "dossier"],
        "report": [out / "mia"],
        "compare": [out / "mia", out / "audit", "--out", out / "comparison.html"],
        "train": ["--mode", "fl-dp", "--from", place / "in/vt5-0", "--data", corpus, "--out", out / "private",
                  "--rounds", 1, "--local-steps", 1, "--public-providers", 4, "--ledger", out / "ledger.json",
                  "--audit-canaries", 4],
        "trainings": [out / "private", "--csv", out / "trainings.csv"],
        "verify": [out / "private", "--from", place / "in/vt5-0"],
        "canaries": ["--training", out / "private", "--canaries", 200, "--out", out / "canaries.json"],
        "reconstruct": ["--forms", forms, "--model", ROOT / "fixtures/layoutlm-private",
                        "--public", ROOT / "fixtures/layoutlm-public", "--fields", 3, "--attempts", 2,
                        "--candidates", 4, "--out", out / "reconstruct"],
        "demo": ["--out", out / "demo"],
    }  # fmt: skip
    return {name: [*name.split(), *map(str, given)] for name, given in rows.items()}


def make_inputs(place: Path) -> None:
    """A corpus, three checkpoints, a form, and the demo's folder of fixtures made of them."""
    from PIL import Image

    from pfl_audit.documents.readers import open_corpus
    from pfl_audit.documents.synthetic.generator import make_corpus
    from pfl_audit.documents.writers import write_jsonl
    from pfl_audit.progress import Silent
    from pfl_audit.training.scratch import train_tokenizer
    from tests.attacks.inversion.template.drawn import save_form
    from tests.conftest import PIECES, RECIPE, save_tiny_vt5
    from tests.documents.test_fcc_adbuy import row
    from tests.models.donut.conftest import save_ours

    given = place / "in"
    for folder in ("fcc/images", "donut", "embedded/templates/form-01"):
        (given / folder).mkdir(parents=True)
    for folder in ("cwd", "out", "home", "tmp"):
        (place / folder).mkdir()
    make_corpus(RECIPE, given / "corpus", Silent())
    corpus = open_corpus(given / "corpus")
    write_jsonl(open_corpus(given / "corpus", "red"), given / "red")
    (given / "red/corpus.jsonl").rename(given / "red/demo.jsonl")
    train_tokenizer(corpus, given, PIECES)
    for seed in (0, 1, 2):
        save_tiny_vt5(given, given / f"vt5-{seed}", seed)
    save_ours(sorted({text for query in corpus.queries for text in (query.question, *query.answers)}), given / "donut")
    save_form(given)
    audit = {"model": given / "vt5-0", "red": given / "corpus", "check": "memorization.generalisation"}
    (given / "audit.toml").write_text("".join(f"{key} = {json.dumps(str(value))}\n" for key, value in audit.items()))
    stations = ["KAAA", "KBBB", "KCCC", "KDDD"] * 4
    (given / "fcc/docs.jsonl").write_text("\n".join(json.dumps(row(*pair)) for pair in enumerate(stations)))
    for number in range(len(stations)):
        Image.new("L", (100, 50)).save(given / f"fcc/images/doc-{number}.png")
    embedded = given / "embedded"
    shutil.copy(given / "t.png", embedded / "templates/form-01/template.png")
    shutil.copy(given / "fields.json", embedded / "templates/form-01/fields.json")
    (embedded / "reconstruction.json").write_text(json.dumps({"fields": 3, "attempts": 2, "candidates": 4}))
    for name, target in {
        "red": given / "red", "blue-secrets": given / "corpus", "forms": place / "out/forms",
        "vt5-finetuned": given / "vt5-0", "vt5-pretrained": given / "vt5-1", "vt5-private": given / "vt5-0",
        "vt5-out": given / "vt5-2",
        "donut": given / "donut", "layoutlm-private": ROOT / "fixtures/layoutlm-private",
        "layoutlm-public": ROOT / "fixtures/layoutlm-public",
    }.items():  # fmt: skip
        (embedded / name).symlink_to(target)


def environment(place: Path) -> dict[str, str]:
    """A user's, whose home is empty; without what would hide a call or a file."""
    # CI: onnxruntime calls no one where that is set, which would hide that it does elsewhere.
    hidden = (
        "CI", "ORT_DISABLE_TELEMETRY", "HF_HUB_OFFLINE", "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TMPDIR",
    )  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    return kept | {
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)])),
        "OMP_NUM_THREADS": "1",
    }


def shrink_demo(place: Path) -> None:
    """The demo's own way through its audits, on the small inputs, with few checks and steps."""
    from pfl_audit.attacks.inversion.settings import InversionSettings
    from pfl_audit.cli import demo, options

    options.embedded = (place / "in/embedded").joinpath
    demo.CHECKS = demo.CONTROL = ("memorization.generalisation", "memorization.provider_name", "membership.azk")
    InversionSettings.model_fields["iterations"].default = 2
    InversionSettings.model_rebuild(force=True)


def main() -> None:
    """Run the commands that are named, or all; a line each with its name, exit code and seconds."""
    from pfl_audit.cli import main as cli

    place, seconds, names = Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
    known = commands(place)
    for name in names or known:
        began = time.monotonic()
        if name == "demo":
            shrink_demo(place)
        sys.argv = ["pfl-audit", *known[name]]
        code = 0
        try:
            cli.main()
        except SystemExit as end:
            code = int(end.code or 0)
        print(f"RAN {name}: {code} in {time.monotonic() - began:.1f} s", flush=True)
    time.sleep(seconds)


if __name__ == "__main__":
    main()
