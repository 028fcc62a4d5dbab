"""Extensions of pfl-audit from outside its repository."""
