"""Provider membership inference."""

from pfl_audit.attacks.membership.attack import ATTACK

__all__ = ["ATTACK"]
