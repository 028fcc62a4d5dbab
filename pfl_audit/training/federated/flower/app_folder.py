"""The folder that ``flwr run`` takes: settings and the names of our two apps, no code of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pfl_audit.files import write_text
from pfl_audit.training.federated.flower.agreement import Agreement
from pfl_audit.training.federated.flower.config import CLIENT_KEYS, ServerConfig
from pfl_audit.version import __version__

_APPS = "pfl_audit.training.federated.flower"
_HEAD = f"""\
# Written by pfl-audit train --engine flower. Every party can read here what it agrees to.
[project]
name = "pfl-audit-federation"
version = "{__version__}"
description = "Federated training of a document model with pfl-audit."
license = {{ file = "LICENSE" }}
dependencies = ["flwr>=1.41,<1.42"]

[tool.flwr.app]
publisher = "pfl-audit"
fab-format-version = 1
flwr-version-target = "1.41.0"

[tool.flwr.app.components]
serverapp = "{_APPS}.server_app:app"
clientapp = "{_APPS}.client_app:app"
"""
_LICENSE = "SPDX-License-Identifier: Apache-2.0\n"


def write_app(folder: Path, agreement: Agreement, server: ServerConfig) -> None:
    """Write the folder.

    Args:
        folder: Made where it is missing.
        agreement: What all parties agree on.
        server: Paths of the server; the clients see them as well. A client gives its own to its SuperNode.
    """
    config = {**agreement.to_config(), "server": asdict(server), "client": dict.fromkeys(CLIENT_KEYS, "")}
    text = _HEAD + "\n" + "\n".join(_toml("tool.flwr.app.config", config)) + "\n"
    write_text(folder / "pyproject.toml", text, private=False)
    write_text(folder / "LICENSE", _LICENSE, private=False)


def _toml(name: str, table: Mapping[str, Any]) -> Iterator[str]:
    """Lines of a table: its values, then its tables. Numbers, strings and truth are written as JSON writes them."""
    yield f"[{name}]"
    for key, value in table.items():
        if not isinstance(value, dict):
            yield f"{key} = {json.dumps(value, ensure_ascii=False)}"
    for key, value in table.items():
        if isinstance(value, dict):
            yield ""
            yield from _toml(f"{name}.{key}", value)
