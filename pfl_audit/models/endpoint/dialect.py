"""Parameters of a request: vendors take different ones, and the first request finds out which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

SEED: Final = 0
_PLAIN: Final = "max_tokens"
_NEW: Final = "max_completion_tokens"


@dataclass(frozen=True)
class Dialect:
    """Parameters that an endpoint takes.

    Attributes:
        limit: Name of the limit of the answer's tokens.
        temperature: Whether a temperature of 0 may be set.
        seed: Whether a seed may be set.
        logprobs: Whether log-probabilities of the answer's tokens may be asked for.
    """

    limit: str = _PLAIN
    temperature: bool = True
    seed: bool = True
    logprobs: bool = True

    def parameters(self, answer_tokens: int) -> dict[str, Any]:
        """The parameters of a request."""
        said: dict[str, Any] = {self.limit: answer_tokens, "stream": False}
        if self.temperature:
            said["temperature"] = 0
        if self.seed:
            said["seed"] = SEED
        if self.logprobs:
            said["logprobs"] = True
        return said

    def words(self) -> str:
        """The parameters, for the report."""
        fixed = [name for name, there in (("temperature 0", self.temperature), (f"seed {SEED}", self.seed)) if there]
        return " and ".join(fixed) if fixed else "neither temperature nor seed, which it does not take"


DIALECTS: Final = (
    Dialect(),
    Dialect(logprobs=False),
    Dialect(_NEW),
    Dialect(_NEW, logprobs=False),
    Dialect(seed=False, logprobs=False),
    Dialect(_NEW, temperature=False, seed=False, logprobs=False),
)
"""From the most to the least that can be asked for."""
