"""Removal of a value from a page: from its OCR words and from its image."""
