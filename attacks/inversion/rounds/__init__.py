"""What each message of a whole federation gives away."""
