"""The slow, obviously right versions that fast code is held against."""
