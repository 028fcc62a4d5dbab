"""Strings of private fields, by the span of the gradient of the patch projection."""
