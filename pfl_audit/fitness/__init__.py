"""Fitness: whether a corpus can carry an audit, measured before a model is asked."""
