"""What one shared gradient gives away of the document that it was computed on."""
