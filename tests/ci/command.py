"""``python -m tests.ci.command`` is pfl-audit of this checkout."""

from pfl_audit.cli.main import main

if __name__ == "__main__":
    main()
