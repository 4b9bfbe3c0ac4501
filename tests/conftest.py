"""Fixtures for all tests: a real control plane, started when a test asks for it."""

import collections
import os
import random
import sys
from pathlib import Path

import hypothesis
import pytest
from _pytest import runner

from tests import strategies

pytest_plugins = [
    "testbed.fixtures",
    "tests.autoscaler.grpc_expander.go_server",
    "tests.emissions",
    "tests.flag_effects",
]

_ONE_AFTER_ANOTHER = "live autoscaler, one after another"
ON_REAL_SERVERS = {
    "e2e/test_capacity_apis.py": _ONE_AFTER_ANOTHER,
    "e2e/test_install.py": _ONE_AFTER_ANOTHER,
    "e2e/test_leader_election.py": _ONE_AFTER_ANOTHER,
    "e2e/test_openshift.py": _ONE_AFTER_ANOTHER,
    "e2e/test_outages.py": _ONE_AFTER_ANOTHER,
    "e2e/test_provisioning_requests.py": _ONE_AFTER_ANOTHER,
    "testbed/rbac": _ONE_AFTER_ANOTHER,
    "testbed/test_worker_pools.py": _ONE_AFTER_ANOTHER,
    "e2e": "live autoscaler",
    "contracts": "real control plane",
    "kube/test_client_on_servers.py": "real control plane",
    "testbed": "real control plane",
}
"""Below tests/: what talks to the real control plane, and its group. Servers are shared within a group, so its tests
run one after another; the groups have servers of their own, and tests that are told `together` are all in one."""

_GIVING_WAY = 10
_GROUP = pytest.StashKey[str | None]()


# Where bytecode is not kept, every worker rewrites every test, and every process that a test starts compiles all of
# windlass: a second each, hundreds of times. It lies beside the sources, where git does not look.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

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
    """Seed what is left to chance, and let a worker that only computes give way to the servers.

    Clients draw the jitter of their retries and the length of their watches: a test gets the same ones in every run,
    with any number of workers and in any order. Other seeds (`WINDLASS_SEED`) look for tests that pass by luck.
    Groups on real servers are the first that workers are given, so nobody is in one after this.
    """
    random.seed(f"{os.environ.get('WINDLASS_SEED', '0')} {item.nodeid.partition('@')[0]}")
    if "PYTEST_XDIST_WORKER" in os.environ and item.stash[_GROUP] is None and os.nice(0) < _GIVING_WAY:
        os.nice(_GIVING_WAY)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """End the servers of a group with its last test: a worker goes on to other tests, and servers that idle cost too.

    pytest ends what is made once per session after the last test of all, which is one that no other follows.
    """
    group = item.stash[_GROUP]
    if "PYTEST_XDIST_WORKER" not in os.environ or group is None or nextitem is None or nextitem.stash[_GROUP] == group:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    runner.runtestprotocol(item, nextitem=None)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How long each group took: it is on one worker, so that the run lasts as long as the longest of them."""
    if not config.getoption("numprocesses", None):
        return
    lasted_s: dict[str, float] = collections.defaultdict(float)
    for report in (item for reports in terminalreporter.stats.values() for item in reports):
        if isinstance(report, pytest.TestReport):
            lasted_s[report.nodeid.partition("@")[2] or "tests in no group, together"] += report.duration
    for group, seconds in sorted(lasted_s.items(), key=lambda each: -each[1]):
        terminalreporter.write_line(f"{seconds:6.0f} s  {group}")
