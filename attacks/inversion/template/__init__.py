"""Publicly available empty forms: where their private fields are, and how a client fills them in."""
