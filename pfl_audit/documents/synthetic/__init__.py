"""Synthetic corpora in the layout of PFL-DocVQA, and synthetic forms, drawn from seeds."""
