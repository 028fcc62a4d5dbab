"""Hostile files, one module of cases a door, and what runs the command line on them under limits."""
