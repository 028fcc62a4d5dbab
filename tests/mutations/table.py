"""All rules that are broken on purpose, in the order of their numbers."""

from __future__ import annotations

from typing import Final

from tests.mutations.attacks import ATTACKS
from tests.mutations.deciding import DECIDING
from tests.mutations.documents import DOCUMENTS
from tests.mutations.mutation import Mutation
from tests.mutations.privacy import PRIVACY

MUTATIONS: Final[tuple[Mutation, ...]] = (*DECIDING, *PRIVACY, *DOCUMENTS, *ATTACKS)
