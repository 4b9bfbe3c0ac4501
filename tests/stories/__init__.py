"""Every scenario that comes with windlass, played as a whole: `python -m tests.stories`."""
