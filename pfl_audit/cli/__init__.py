"""The command line: one thin module a command; torch and its like are imported inside the call."""
