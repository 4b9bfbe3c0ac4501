"""Fixtures for all tests: a real control plane, started when a test asks for it."""

pytest_plugins = ["testbed.fixtures"]
