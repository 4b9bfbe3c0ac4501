"""Fixtures for all tests: a real control plane, started when a test asks for it."""

from pathlib import Path

import hypothesis
import pytest

from tests import strategies

pytest_plugins = ["testbed.fixtures", "tests.autoscaler.expander_server.serving"]

ON_REAL_SERVERS = {
    "e2e": "live autoscaler",
    "testbed/test_worker_pools.py": "live autoscaler",
    "contracts": "real control plane",
    "kube/test_on_servers.py": "real control plane",
    "testbed": "real control plane",
}
"""Below tests/: what talks to the real control plane, and its group. Servers are shared within a group, so its tests
run one after another; the groups have servers of their own."""


hypothesis.settings.register_profile("windlass", strategies.examples(100))
hypothesis.settings.load_profile("windlass")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in a hook of the same name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests on real servers together: workers that share one server would see each other's objects."""
    here = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""
        group = next((group for start, group in ON_REAL_SERVERS.items() if place.startswith(start)), None)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))
