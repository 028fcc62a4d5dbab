"""Donut checkpoints that answer questions about a page from its picture alone."""
