"""Attacks: one folder a family, found by entry point, each with a page in docs/."""
