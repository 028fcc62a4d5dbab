"""Gradient inversion."""
