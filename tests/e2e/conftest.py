"""One control plane and one autoscaler for all tests here; the autoscaler's log is shown where a test fails."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import clusterapi, fixtures, sharing
from testbed.bed import Bed
from testbed.site import Choice
from tests.e2e import concurrent_tests, rbac
from tests.e2e.autoscaler_process import Live, write_kubeconfig
from tests.e2e.gateway import Gateway
from tests.e2e.scale_scenario import Scene, slug

_LOG_CHARS = 12000
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """A control plane that no other tests use: their nodes would be in the autoscaler's sight."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("e2e")
    with sharing.shared(directory, Choice(scheduler=True, kwok=True, capi=True)) as found:
        clusterapi.add_cluster(found.api, found.kubeconfig)
        rbac.grant(found.api)
        yield found


@pytest.fixture(scope="session")
def gateway(bed: Bed) -> Iterator[Gateway]:
    with Gateway(bed.site.server, str(bed.site.files.ca)) as found:
        yield found


@pytest.fixture(scope="session")
def autoscaler(bed: Bed, gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The autoscaler, not started yet."""
    directory = tmp_path_factory.mktemp("autoscaler")
    kubeconfig = write_kubeconfig(directory / "kubeconfig", bed.site.kubeconfig(rbac.USER), gateway.port)
    found = Live(kubeconfig, Path(os.environ.get("WINDLASS_E2E_LOG", directory / "log")))
    yield found
    if found.is_alive:
        found.stop()


@pytest.fixture
def live(autoscaler: Live) -> Iterator[Live]:
    """The autoscaler with its usual flags, running, whatever the test before did to it."""
    if not autoscaler.is_alive:
        autoscaler.start()
    given = autoscaler.given
    yield autoscaler
    if autoscaler.is_alive and autoscaler.given != given:  # a test failed before it ended a process of its own
        autoscaler.kill()


@pytest.fixture(scope="session")
def company() -> Iterator[concurrent_tests.Company]:
    found = concurrent_tests.Company()
    yield found
    found.end()


@pytest.fixture
def scene(
    bed: Bed, live: Live, gateway: Gateway, company: concurrent_tests.Company, request: pytest.FixtureRequest
) -> Iterator[Scene]:
    """Groups and pods of one test."""
    log_bytes = live.log.stat().st_size

    def stage(item: pytest.Item) -> Scene:
        return Scene(bed, live, gateway, f"{slug(item.name)}-{next(_NUMBERS):03}")  # no name begins with another

    if concurrent_tests.is_member(request.node):
        company.begin(request.session.items, stage)
        found = concurrent_tests.scene_of(request.node)
        yield found
    else:
        company.wait()
        found = stage(request.node)
        found.begin()
        yield found
        found.end()
    log = live.log.read_bytes()[log_bytes:].decode(errors="replace")
    request.node.add_report_section("teardown", "autoscaler", log[-_LOG_CHARS:])
    refused = [call for call in found.calls() if call.status in (401, 403)]
    assert found.expects_refusals or not refused, f"more rights than cluster-autoscaler has: {refused}"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Tests that are told together have been told already."""
    return concurrent_tests.on_event(pyfuncitem) or None


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", f"{concurrent_tests.MARK}: told at the same time as others, on groups of its own"
    )
