"""Shipped scenarios: each is simulated as a whole: `python -m tests.shipped_scenarios`."""
