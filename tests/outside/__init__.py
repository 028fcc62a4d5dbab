"""What the commands do outside their output: look-ups on the network, and files written, as strace sees them."""
