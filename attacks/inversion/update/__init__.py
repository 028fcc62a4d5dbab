"""What the numbers of an update show of how a client made it and how it was sent."""
