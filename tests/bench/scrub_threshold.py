"""Why the threshold of the scrubber is what it is: python -m tests.bench.scrub_threshold.

Values on synthetic pages are misread by a simulated OCR. What an exact match finds on the clean page
is the truth; a threshold is good where it still finds that on the misread page (recall) and takes few
other words along.
"""

from __future__ import annotations

import numpy as np

from pfl_audit.documents.keys import PROVIDER_KEYS
from pfl_audit.documents.scrub import find_value
from pfl_audit.documents.synthetic.invoice import draw_invoice
from pfl_audit.documents.synthetic.noise import misread
from pfl_audit.documents.synthetic.providers import draw_providers
from pfl_audit.documents.synthetic.render import render_invoice

THRESHOLDS = (0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 1.0)
PAGES = 400


def main() -> None:
    """Print recall and other words taken, by threshold and share of misread words."""
    print(f"{'misread':>8} {'threshold':>10} {'recall':>8} {'other words a page':>20}")
    for noise in (0.0, 0.05, 0.2):
        for threshold in THRESHOLDS:
            rng = np.random.default_rng(0)
            found = truth = others = asked = 0
            for provider in draw_providers(PAGES, rng):
                invoice = draw_invoice(provider, rng)
                clean = render_invoice(invoice).words
                seen = tuple(misread(clean, noise, rng))
                for key in PROVIDER_KEYS:
                    exact = find_value(tuple(clean), invoice.values[key], 1.0) if key in invoice.values else set()
                    if exact:
                        hits = find_value(seen, invoice.values[key], threshold)
                        found += len(hits & exact)
                        truth += len(exact)
                        others += len(hits - exact)
                        asked += 1
            print(f"{noise:8.0%} {threshold:10.2f} {found / truth:8.1%} {others / asked:20.3f}")


if __name__ == "__main__":
    main()
