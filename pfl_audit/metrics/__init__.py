"""Pure functions over arrays and strings, without input or output."""
