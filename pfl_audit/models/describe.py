"""Facts about a checkpoint from its headers and config.json, without torch and without opening the model."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from pfl_audit.models.adapter_folder import base_of
from pfl_audit.models.family import DescribedFamily
from pfl_audit.models.open import family_of
from pfl_audit.models.protocol import Capability
from pfl_audit.models.weights import checkpoint_files, read_config, read_entries

_STATISTICS = re.compile(r".*\.(running_mean|running_var)")
"""Floating-point buffers of batch normalisation, which are no parameters."""


@dataclass(frozen=True)
class CheckpointFacts:
    """What is known of a checkpoint without opening it.

    Attributes:
        family: Name of its family.
        parameters: Floating-point elements in the weight files, each stored tensor once and without the statistics of
            batch normalisation. Files may hold copies of tied tensors, or tensors that opening leaves out, so this
            can exceed the number of parameters of the opened network.
        capabilities: What it can be asked for.
        way: How it is asked, or empty.
    """

    family: str
    path: Path
    parameters: int
    capabilities: frozenset[Capability]
    way: str = ""


def describe_checkpoint(folder: Path) -> CheckpointFacts:
    """Describe a checkpoint folder, by the headers of its files alone.

    Raises:
        UsageError: There is no such folder.
        AuditError: No checkpoint, none of a known family, or damaged headers.
    """
    base = base_of(folder)
    tables = [read_entries(path) for path in checkpoint_files(base)]
    config = read_config(base)
    tensors = frozenset(name for table in tables for name in table)
    family = family_of(folder)
    stored = [
        {entry for name, entry in table.items() if entry.dtype.is_floating_point and not _STATISTICS.fullmatch(name)}
        for table in tables
    ]
    return CheckpointFacts(
        family=family.name,
        path=folder,
        parameters=sum(math.prod(entry.shape) for entries in stored for entry in entries),
        capabilities=family.capabilities(config, tensors),
        way=family.way(config) if isinstance(family, DescribedFamily) else "",
    )
