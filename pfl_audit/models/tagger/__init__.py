"""Encoders with a head that labels the words of a page."""
