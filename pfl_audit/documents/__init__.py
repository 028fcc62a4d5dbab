"""Documents: pages with words, boxes and questions, their readers and writers, and scrubbing."""
