"""Values put back within k guesses: secrets, tests and rows, common to encoders of forms and models that answer."""
