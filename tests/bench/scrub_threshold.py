"""Why the threshold of the scrubber is what it is: python -m tests.bench.scrub_threshold.

Values on synthetic pages are misread by a simulated OCR. What an exact match finds on the clean page
is the truth; a threshold is good where it still finds that on the misread page (recall) and takes few
other words along. The last column is the time for the names of all pages.
"""

from __future__ import annotations

import time

import numpy as np

from pfl_audit.documents.keys import PROVIDER_KEYS
from pfl_audit.documents.scrubbing.scrub import find_value
from pfl_audit.documents.synthetic.generator import add_ocr_errors
from pfl_audit.documents.synthetic.invoice import draw_invoice
from pfl_audit.documents.synthetic.providers import draw_providers
from pfl_audit.documents.synthetic.render import render_invoice

THRESHOLDS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0)
PAGES = 400


def main() -> None:
    """Print recall and other words taken, by threshold and share of misread words."""
    rng = np.random.default_rng(0)
    invoices = [draw_invoice(provider, rng) for provider in draw_providers(PAGES, rng)]
    pages = [(invoice.values, tuple(render_invoice(invoice).words)) for invoice in invoices]
    exact = {
        (number, key): hits
        for number, (values, words) in enumerate(pages)
        for key in PROVIDER_KEYS
        if key in values and (hits := find_value(words, values[key], 1.0))
    }
    print(f"{'misread':>8} {'threshold':>10} {'recall':>8} {'other words a page':>20} {'s for 400 names':>16}")
    for noise in (0.0, 0.05, 0.2):
        seen = [tuple(add_ocr_errors(list(words), noise, rng)) for _, words in pages]
        for threshold in THRESHOLDS:
            found = others = 0
            start = time.process_time()
            for (values, _), words in zip(pages, seen, strict=True):
                find_value(words, values["provider_name"], threshold)
            spent = time.process_time() - start
            for (number, key), truth in exact.items():
                hits = find_value(seen[number], pages[number][0][key], threshold)
                found += len(hits & truth)
                others += len(hits - truth)
            recall = found / sum(map(len, exact.values()))
            taken = others / len(exact)
            print(f"{noise:8.0%} {threshold:10.2f} {recall:8.1%} {taken:20.3f} {spent:16.2f}", flush=True)


if __name__ == "__main__":
    main()
