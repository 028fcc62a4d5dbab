"""Error rates and power of the verdicts, over many audits whose truth is known: python -m tests.bench.rates."""
