"""Federated and differentially private training."""
