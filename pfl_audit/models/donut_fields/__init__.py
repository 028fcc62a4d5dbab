"""Donut that prints the fields of a page as one tagged sequence."""
