"""Question and answer of a Donut's client, token by token, from one gradient in closed form."""
