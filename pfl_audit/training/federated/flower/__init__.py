"""The federated trainer as a Flower ServerApp and ClientApp."""
