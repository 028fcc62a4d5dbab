"""Import of a folder of documents: pages, OCR, labels, proposed values, questions."""
