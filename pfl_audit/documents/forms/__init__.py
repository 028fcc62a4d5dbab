"""Forms: pages with labelled fields, which reconstruction puts back."""
