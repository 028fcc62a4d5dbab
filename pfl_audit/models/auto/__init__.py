"""One adapter for the text and vision-language models that transformers opens by its auto classes."""
