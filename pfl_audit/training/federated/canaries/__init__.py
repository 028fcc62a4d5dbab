"""Audit of the private trainer with update canaries: virtual providers whose updates are known directions."""
