"""Empty forms that anybody can get: where their private fields are, and how a client fills them in."""
