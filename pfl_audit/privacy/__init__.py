"""Provider-level differential privacy: sampling, accountants, noise calibration, and review of guarantees."""
