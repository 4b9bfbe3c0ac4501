"""Fixtures for all tests: a real control plane, started when a test asks for it."""

from pathlib import Path

import pytest

pytest_plugins = ["testbed.fixtures"]

ON_REAL_SERVERS = ("contracts", "testbed", "e2e", "kube/test_on_servers.py")
"""Below tests/: what talks to the real control plane. It is shared, so these run one after another."""


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in a hook of the same name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests on real servers together: workers that share one server would see each other's objects."""
    here = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""
        if place.startswith(ON_REAL_SERVERS):
            item.add_marker(pytest.mark.xdist_group("real control plane"))
