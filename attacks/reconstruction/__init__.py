"""Reconstruction of scrubbed fields (CDMI)."""
