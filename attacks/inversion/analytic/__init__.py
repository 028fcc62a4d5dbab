"""Closed-form inversion of the gradient of an embedding sum: tokens by position, boxes and pixels."""
