"""The command line: one file per command.

Lives here: reading arguments and files, printing. Never here: a decision, or knowledge of how one is made.
"""


def main() -> None:
    """The `windlass` command."""
    raise SystemExit("windlass: no command yet")
