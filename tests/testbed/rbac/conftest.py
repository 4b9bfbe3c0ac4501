"""One control plane that writes down what is asked of it, and the stories of all processes, told at the same time."""

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import api, clusterapi, fixtures, objects, sharing
from testbed.bed import Bed
from testbed.site import Choice
from tests.testbed.rbac import audit_log, machine_pool_scenario, options_scenario, scaling_scenario, service_accounts
from tools import rbac
from windlass.controllers import rbac as controllers_rbac
from windlass.kube.rbac import RbacProfile, ServiceAccount

_CHOICE = Choice(scheduler=True, kwok=True, capi=True, capi_machine_pools=False, audited=True)

CONTROLLERS = {
    "machine_pool": ("machine-pool",),
    "eks_anywhere": ("eks-anywhere",),
    "lattice": ("lattice", "lattice-deploy-autoscaler"),
}
"""The operator's, and the lists that each takes."""
WORKLOAD = ServiceAccount("workload", "second")


def account(controller: str) -> ServiceAccount:
    """Each has a process and an account of its own here: what one may do is nothing to another."""
    return ServiceAccount("windlass-operator", f"{controller.replace('_', '-')}-alone")


def lists(controller: str) -> list[RbacProfile]:
    """What it is given."""
    every = {profile.name: profile for profile in rbac.EVERY}
    given = [controllers_rbac.OPERATOR, *(every[name] for name in CONTROLLERS[controller])]
    return [service_accounts.move(one, account(controller)) for one in given]


@pytest.fixture(scope="package")
def bed() -> Iterator[Bed]:
    """With a Cluster `work` in `default`; MachinePools are for whoever is tested."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.alone(_CHOICE) as found:
        clusterapi.add_cluster(found.api, found.kubeconfig)
        yield found


@pytest.fixture(scope="package")
def asked(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> list[audit_log.Asked]:
    """What every process asked for in the course of its story."""
    directory = tmp_path_factory.mktemp("rights")
    machine_pool_scenario.define(bed)
    workload = service_accounts.move(_named("machine-pool-workload"), WORKLOAD)
    service_accounts.give(bed, workload, *(profile for item in CONTROLLERS for profile in lists(item)))
    scaling_scenario.prepare(bed)
    with contextlib.ExitStack() as running:
        for entry in CONTROLLERS:
            running.enter_context(_operating_as_pod(bed, directory, entry))
        running.enter_context(scaling_scenario.running(bed, directory))
        _report(bed, directory)
    scaling_scenario.keep_much(bed, directory)
    _wait_written(bed, directory)
    return audit_log.read(bed.site.audit_log)


@contextlib.contextmanager
def _operating_as_pod(bed: Bed, directory: Path, controller: str) -> Iterator[None]:
    """A controller, in a pod whose image it reads if it deploys an autoscaler."""
    user, container = account(controller), {"name": "operator", "image": "windlass:test"}
    # On no node: there it would keep a group from shrinking.
    spec = {"containers": [container], "serviceAccountName": user.name, "schedulerName": "nobody"}
    bed.api.add(objects.made("v1", "Pod", "operator-1", user.namespace, spec))
    with contextlib.ExitStack() as running:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("POD_NAME", "operator-1")
            environment.setenv("POD_NAMESPACE", user.namespace)
            flag = "--record-duplicated-events"
            running.enter_context(service_accounts.operating(bed, directory, controller, user, flag))
        yield


def _wait_written(bed: Bed, directory: Path) -> None:
    """Until what was asked for up to now is in the log: the server writes a line after its answer."""
    server, name = api.Api(service_accounts.enter(bed, directory, WORKLOAD)), f"last-{secrets.token_hex(4)}"
    with contextlib.suppress(api.Refused):  # it is there for nothing but its line
        server.get(f"/api/v1/nodes/{name}")
    api.wait_for(f"{name} is in the log", lambda: name.encode() in bed.site.audit_log.read_bytes(), poll_s=1.0)


@pytest.fixture(scope="package")
def unserved(bed: Bed) -> set[str]:
    return audit_log.find_unserved(bed)


@pytest.fixture(scope="package")
def asked_with_options(
    bed: Bed, asked: list[audit_log.Asked], tmp_path_factory: pytest.TempPathFactory
) -> list[audit_log.Asked]:
    """What the autoscaler asked for with all its options on."""
    before = audit_log.find_end(bed.site.audit_log)
    directory = tmp_path_factory.mktemp("options")
    options_scenario.report(bed, directory)
    _wait_written(bed, directory)
    return audit_log.read(bed.site.audit_log, before)


def _report(bed: Bed, directory: Path) -> None:
    """All begin at once; what takes longest is waited for first."""
    scaling_scenario.begin(bed)
    machine_pool_scenario.add_outside(bed, service_accounts.enter(bed, directory, WORKLOAD))
    machine_pool_scenario.add_eks(bed)
    machine_pool_scenario.add_lattice(bed)
    scaling_scenario.grow(bed)
    with scaling_scenario.asking(bed, directory):
        machine_pool_scenario.end_outside(bed)
        machine_pool_scenario.end_eks(bed)
        machine_pool_scenario.end_lattice(bed)
        scaling_scenario.shrink(bed)


def _named(name: str) -> RbacProfile:
    return next(profile for profile in rbac.EVERY if profile.name == name)
