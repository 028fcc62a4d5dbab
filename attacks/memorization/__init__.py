"""The memorization test, and unprompted disclosure."""

from pfl_audit.attacks.memorization.attack import ATTACK

__all__ = ["ATTACK"]
