"""Documents: pages with words, boxes and questions; readers, writers, scrubbing and synthetic data."""
