"""Reconstruction of scrubbed fields (CDMI)."""

from pfl_audit.attacks.reconstruction.attack import ATTACK

__all__ = ["ATTACK"]
