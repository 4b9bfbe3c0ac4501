"""SIGTERM at random moments of a real process: `python -m tests.sigterm --times 100`."""
