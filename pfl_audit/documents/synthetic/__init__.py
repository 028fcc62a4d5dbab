"""A synthetic corpus in the exact layout of PFL-DocVQA, drawn from seeds."""
