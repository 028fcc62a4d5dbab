"""Document membership by optimisation (DocMIA)."""
