"""pytest fixtures: a bare API server, or a whole control plane, shared by all tests of a run that ask for it.

Started by the first test that asks, ended after the last, however the run ends. With several workers (xdist) they use
one test bed together: a test keeps to a namespace of its own, and to names of its own for what has none.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import bed, building, cache, sharing
from testbed.site import Choice

KUBECONFIG = "WINDLASS_TESTBED_KUBECONFIG"
"""Names the kubeconfig of the real API server that contract tests run against."""


def why_not() -> str:
    """Why no test bed can be started here; nothing if it can."""
    if not cache.missing():
        return ""
    if building.has_go():
        return "the test bed is not built yet: run `make testbed`"
    return "the test bed is not built, and building it takes Go, which is not here"


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[bed.Bed]:
    """Everything: scheduler, all controllers, KWOK nodes, Cluster API with the fake infrastructure."""
    directory = _directory(tmp_path_factory, "control-plane")
    with sharing.shared(directory, Choice(scheduler=True, kwok=True, capi=True)) as found:
        yield found


@pytest.fixture(scope="session")
def real_api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of a real API server on which nobody touches Nodes and Pods but the test.

    One that the environment names is used as it is; otherwise one is started, and named there.
    """
    if given := os.environ.get(KUBECONFIG):
        yield Path(given)
        return
    directory = _directory(tmp_path_factory, "api-server")
    with sharing.shared(directory, Choice()) as found, pytest.MonkeyPatch.context() as patch:
        patch.setenv(KUBECONFIG, str(found.kubeconfig))
        yield found.kubeconfig


def _directory(temporary: pytest.TempPathFactory, name: str) -> Path:
    if reason := why_not():
        pytest.skip(reason)
    base = temporary.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / name


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One loud line for all the tests that need a real control plane and did not get one."""
    reason = why_not()
    skipped = [
        report for report in terminalreporter.stats.get("skipped", ()) if reason and reason in str(report.longrepr)
    ]
    if skipped:
        line = f"SKIPPED {len(skipped)} TESTS ON THE REAL CONTROL PLANE: {reason}"
        terminalreporter.write_line(line, red=True, bold=True)
