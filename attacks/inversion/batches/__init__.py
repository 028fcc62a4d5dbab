"""Batches and sums of clients taken apart: which token stands where, and on which page."""
