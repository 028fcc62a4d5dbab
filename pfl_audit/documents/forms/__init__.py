"""Forms: pages with labelled fields, the subject of reconstruction attacks."""
