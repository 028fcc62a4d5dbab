"""All rules that are broken on purpose, in the order of their numbers."""

from __future__ import annotations

from typing import Final

from tests.mutations.attacks import ATTACKS
from tests.mutations.deciding import DECIDING
from tests.mutations.documents import DOCUMENTS
from tests.mutations.mutation import Mutation
from tests.mutations.privacy import PRIVACY
from tests.mutations.resume import RESUME

MUTATIONS: Final[tuple[Mutation, ...]] = (*DECIDING, *RESUME, *PRIVACY, *DOCUMENTS, *ATTACKS)
