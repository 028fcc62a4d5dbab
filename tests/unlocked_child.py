"""A child of the sandbox without the parts of the lock that ``WITHOUT`` in its environment names."""

import os
import sys

from pfl_audit import sandbox_child, sandbox_lock


def _absent(*_: object) -> None:
    raise sandbox_lock.LockError


if __name__ == "__main__":
    for part in os.environ["WITHOUT"].split():
        setattr(sandbox_lock, part.lower(), _absent)
    sandbox_child.serve(int(sys.argv[1]))
