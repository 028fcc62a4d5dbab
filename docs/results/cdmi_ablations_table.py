"""The table of cdmi_ablations.sh: python docs/results/cdmi_ablations_table.py build/cdmi-ablations."""

from __future__ import annotations

import sys
from pathlib import Path

from cdmi_table import ATTACK, NEW, PRIVATE, PUBLIC, cell, metric

from pfl_audit.core.results import read_results

NAMES = {
    "mlm-layoutlm-unimodal-015": "MLM, LayoutLM, epoch 15",
    "mlm-layoutlm-unimodal-030": "the same, epoch 30",
    "mlm-layoutlm-unimodal-045": "the same, epoch 45",
    "mlm-layoutlm-unimodal": "the same, epoch 60",
    "mlm-bert-unimodal": "MLM, BERT (no boxes), epoch 60",
    "mlm-layoutlm-bimodal": "MLM, LayoutLM that sees the page, epoch 60",
    "mlm-layoutlm-bimodal-noise": "the same, pages of noise",
    "ee-bio-128": "EE-BIO, LayoutLM, 40 fields, 128 candidates",
    "ee-bio-512": "the same, 512 candidates",
    "ee-bio-gradient": "the same, 128 candidates by gradient",
    "ee-bio-tuned": "the same, 128 candidates, tuned",
}
HEADS = ("target", "secrets within 1", "within 64", "public model, within 64", "new forms, within 64")
HEADS += ("IpF", "AccAUC", "guesses/one-shot/multi-shot")


def main(work: Path) -> None:
    """Print a line an audit."""
    print(f"| {' | '.join(HEADS)} |\n|{' --- |' * len(HEADS)}")
    for name, title in NAMES.items():
        folder = work / "audits" / name
        if not (folder / "results.json").is_file():
            print(f"| {title} |{' not run |' * (len(HEADS) - 1)}")
            continue
        found = read_results(folder)
        columns = ((PRIVATE, ATTACK, 1), (PRIVATE, ATTACK, 64), (PRIVATE, PUBLIC, 64), (NEW, ATTACK, 64))
        shares = (metric(found, "secrets put back", forms, by, guesses=k) for forms, by, k in columns)
        scores = (metric(found, score, PRIVATE, ATTACK) for score in ("improvement factor", "AccAUC"))
        cells = [*(cell(share, percent=True) for share in shares), *map(cell, scores)]
        levels = "/".join(check.finding.level if check.finding else check.status for check in found.checks)
        print(f"| {' | '.join([title, *cells, levels])} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
