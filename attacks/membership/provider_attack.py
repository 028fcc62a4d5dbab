"""Attacks on provider membership from other packages: a score a provider, refitted on every draw of known providers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from pfl_audit.core.settings import Settings as SettingsBase
from pfl_audit.registry import Registry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scores = Callable[[NDArray[np.float64], NDArray[np.int64], NDArray[np.bool_], int], NDArray[np.float64]]


class ProviderAttack(Protocol):
    """An attack on provider membership, found by the entry point ``pfl_audit.provider_attacks``.

    It becomes the check ``membership.NAME``, and joins the permutation test of all attacks with its level of access.
    Its settings are keys of ``membership.provider_attacks``, such as ``[attacks.membership.provider_attacks.NAME]``.

    Attributes:
        name: Name of the entry point.
        title: Title for people.
        features: Columns of the table of providers that it uses (`rows.MEANING`).
        knowledge: ``ZK``, ``PK`` or ``RK`` for the access to models, then ``+U`` or ``+S`` (`rows.ACCESS`); a
            supervised attack (S) uses the membership of known providers.
        Settings: Class of its settings.
    """

    name: str
    title: str
    features: tuple[str, ...]
    knowledge: str
    Settings: type[SettingsBase]

    def scores(
        self,
        features: NDArray[np.float64],
        known: NDArray[np.int64],
        members: NDArray[np.bool_],
        seed: int,
        settings: SettingsBase,
    ) -> NDArray[np.float64]:
        """Fit on the known providers and score all of them.

        Args:
            features: One row a provider, a column a feature, float64 (providers, features).
            known: Rows whose membership the attacker knows, int64 (known,).
            members: Membership of these, bool (known,).
            seed: Seed of all random draws.
            settings: Validated settings.

        Returns:
            float64 (providers,), larger for providers that are more likely members.
        """
        ...


PROVIDER_ATTACKS: Registry[ProviderAttack] = Registry(
    "pfl_audit.provider_attacks", "provider attack", ("name", "title", "features", "knowledge", "Settings", "scores")
)
