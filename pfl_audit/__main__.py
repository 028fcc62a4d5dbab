"""``python -m pfl_audit``: the command line, for launchers that start a module."""

from pfl_audit.cli.main import main

if __name__ == "__main__":
    main()
