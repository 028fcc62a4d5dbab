"""Provider membership inference."""
