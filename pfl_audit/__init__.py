"""pfl-audit: what a document-understanding model gives away about its training documents."""

__version__ = "0.1.0"
