"""Token-level encoders of forms: LayoutLM, BROS and BERT with their heads."""
