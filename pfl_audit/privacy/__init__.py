"""What differential privacy a training run earns: sampling, accountants, noise for a target, and claims."""
