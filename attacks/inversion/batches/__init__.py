"""Positions, boxes and pages of the tokens of a batch, or of a sum of clients."""
