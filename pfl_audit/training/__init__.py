"""Training of the models under audit."""
