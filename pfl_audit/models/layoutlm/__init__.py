"""LayoutLM checkpoints, version 1 and 3, that answer questions by a span of the page."""
