"""A model behind an OpenAI-compatible chat endpoint: the one place that uses a network at audit time, when asked."""

from typing import Literal

Sent = Literal["picture", "words", "both"]
"""What is sent of a page."""
