"""Document canaries: whether a model was trained on pages that were planted by coins."""
