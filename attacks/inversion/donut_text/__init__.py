"""Closed-form recovery of question and answer from the gradient of a text decoder."""
