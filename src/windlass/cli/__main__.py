"""`python -m windlass.cli` runs the `windlass` command, as `python -m windlass` does."""

from windlass.cli import main

main()
