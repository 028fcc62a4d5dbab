"""Models under audit: one protocol, safe loading, one folder a family."""
