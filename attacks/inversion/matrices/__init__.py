"""Tokens, positions and boxes of an update that shares nothing of the embeddings: by the first layer's matrices."""
