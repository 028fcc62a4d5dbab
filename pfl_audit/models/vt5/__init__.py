"""VT5: a T5 over words with boxes and the patches of a page."""
