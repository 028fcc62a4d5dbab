"""The table of cdmi_ablations.sh: python docs/results/cdmi_ablations_table.py build/cdmi-ablations."""

from __future__ import annotations

import sys
from pathlib import Path

from pfl_audit.core.results import Metric, Results, read_results

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
        own, public = "the attack", "public knowledge alone"
        cells = [_cell(found, "secrets put back", "private forms", own, k) for k in (1, 64)]
        cells.append(_cell(found, "secrets put back", "private forms", public, 64))
        cells.append(_cell(found, "secrets put back", "new forms", own, 64))
        cells += [_cell(found, score, "private forms", own) for score in ("improvement factor", "AccAUC")]
        levels = "/".join(check.finding.level if check.finding else check.status for check in found.checks)
        print(f"| {' | '.join([title, *cells, levels])} |")


def _cell(results: Results, name: str, forms: str, by: str, guesses: int | None = None) -> str:
    wanted = {"model": "target", "fields": forms, "with": by} | ({"guesses": guesses} if guesses else {})
    metrics = (metric for check in results.checks for metric in check.metrics)
    found: Metric | None = next((one for one in metrics if (one.name, one.slice) == (name, wanted)), None)
    if found is None or found.value is None or found.ci is None:
        return "–"
    if guesses:
        return f"{100 * found.value:.1f} % [{100 * found.ci[0]:.1f}, {100 * found.ci[1]:.1f}]"
    return f"{found.value:.3f} [{found.ci[0]:.3f}, {found.ci[1]:.3f}]"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
