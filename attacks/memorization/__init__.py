"""The memorization test, and unprompted disclosure."""
