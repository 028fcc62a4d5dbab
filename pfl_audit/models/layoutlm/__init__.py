"""Extractive question answering by LayoutLM, v1 and v3."""
