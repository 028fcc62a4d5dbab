"""An audit: who is asked what, what came out, and what it means."""
