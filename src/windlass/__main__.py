"""`python -m windlass` runs the `windlass` command."""

from windlass.cli import main

main()
