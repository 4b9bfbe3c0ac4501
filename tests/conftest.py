"""Fixtures for all tests: a real control plane, started when a test asks for it."""

import os
from pathlib import Path

import hypothesis
import pytest

from tests import strategies

pytest_plugins = ["testbed.fixtures", "tests.autoscaler.expander_server.serving"]

_ONE_AFTER_ANOTHER = "live autoscaler, one after another"
ON_REAL_SERVERS = {
    "e2e/test_capacity.py": _ONE_AFTER_ANOTHER,
    "e2e/test_install.py": _ONE_AFTER_ANOTHER,
    "e2e/test_leading.py": _ONE_AFTER_ANOTHER,
    "e2e/test_openshift.py": _ONE_AFTER_ANOTHER,
    "e2e/test_outages.py": _ONE_AFTER_ANOTHER,
    "e2e/test_requests.py": _ONE_AFTER_ANOTHER,
    "testbed/rights": _ONE_AFTER_ANOTHER,
    "testbed/test_worker_pools.py": _ONE_AFTER_ANOTHER,
    "e2e": "live autoscaler",
    "contracts": "real control plane",
    "kube/test_on_servers.py": "real control plane",
    "testbed": "real control plane",
}
"""Below tests/: what talks to the real control plane, and its group. Servers are shared within a group, so its tests
run one after another; the groups have servers of their own, and tests that are told `together` are all in one."""

_GIVING_WAY = 10
_GROUP = pytest.StashKey[str | None]()


hypothesis.settings.register_profile("windlass", strategies.examples(100))
hypothesis.settings.load_profile("windlass")


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in a hook of the same name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep tests on real servers together: workers that share one server would see each other's objects."""
    here = Path(__file__).parent
    for item in items:
        place = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""
        item.stash[_GROUP] = next((group for start, group in ON_REAL_SERVERS.items() if place.startswith(start)), None)
        if item.stash[_GROUP] is not None:
            item.add_marker(pytest.mark.xdist_group(item.stash[_GROUP]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are cores: tests on real servers mostly wait, and there are three groups of them."""
    return (os.cpu_count() or 1) + 2


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a worker that only computes give way to the servers, whose clocks go on while they starve.

    Groups on real servers are the first that workers are given, so nobody is in one after this.
    """
    if "PYTEST_XDIST_WORKER" in os.environ and item.stash[_GROUP] is None and os.nice(0) < _GIVING_WAY:
        os.nice(_GIVING_WAY)
