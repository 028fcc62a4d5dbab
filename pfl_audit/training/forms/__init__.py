"""Training of form encoders: MLM, entity extraction, entity linking."""
