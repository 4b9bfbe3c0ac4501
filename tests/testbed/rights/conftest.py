"""One control plane that writes down what is asked of it, and the stories of all processes, told at the same time."""

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from handbook import rights as shipped
from testbed import api, clusterapi, fixtures, sharing
from testbed.bed import Bed
from testbed.site import Choice
from tests.testbed.rights import audit, holding, options, pools, scaling
from windlass.controllers import rbac
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
    every = {one.name: one for one in shipped.EVERY}
    given = [rbac.OPERATOR, *(every[name] for name in CONTROLLERS[controller])]
    return [holding.move(one, account(controller)) for one in given]


@pytest.fixture(scope="package")
def bed() -> Iterator[Bed]:
    """With a Cluster `work` in `default`; MachinePools are for whoever is tested."""
    if reason := fixtures.why_not():
        pytest.skip(reason)
    with sharing.alone(_CHOICE) as found:
        clusterapi.add_cluster(found.api, found.kubeconfig)
        yield found


@pytest.fixture(scope="package")
def asked(bed: Bed, tmp_path_factory: pytest.TempPathFactory) -> list[audit.Asked]:
    """What every process asked for in the course of its story."""
    directory = tmp_path_factory.mktemp("rights")
    pools.define(bed)
    workload = holding.move(_named("machine-pool-workload"), WORKLOAD)
    holding.give(bed, workload, *(one for each in CONTROLLERS for one in lists(each)))
    scaling.prepare(bed)
    with contextlib.ExitStack() as running:
        for each in CONTROLLERS:
            running.enter_context(holding.operating(bed, directory, each, account(each), "--record-duplicated-events"))
        running.enter_context(scaling.running(bed, directory))
        _tell(bed, directory)
    scaling.keep_much(bed, directory)
    _wait_written(bed, directory)
    return audit.read(bed.site.audit_log)


def _wait_written(bed: Bed, directory: Path) -> None:
    """Until what was asked for up to now is in the log: the server writes a line after its answer."""
    server, name = api.Api(holding.enter(bed, directory, WORKLOAD)), f"last-{secrets.token_hex(4)}"
    with contextlib.suppress(api.Refused):  # it is there for nothing but its line
        server.get(f"/api/v1/nodes/{name}")
    api.wait_for(f"{name} is in the log", lambda: name.encode() in bed.site.audit_log.read_bytes(), poll_s=1.0)


@pytest.fixture(scope="package")
def unserved(bed: Bed) -> set[str]:
    return audit.find_unserved(bed)


@pytest.fixture(scope="package")
def asked_with_options(
    bed: Bed, asked: list[audit.Asked], tmp_path_factory: pytest.TempPathFactory
) -> list[audit.Asked]:
    """What the autoscaler asked for with all its options on."""
    before = audit.find_end(bed.site.audit_log)
    directory = tmp_path_factory.mktemp("options")
    options.tell(bed, directory)
    _wait_written(bed, directory)
    return audit.read(bed.site.audit_log, before)


def _tell(bed: Bed, directory: Path) -> None:
    """All begin at once; what takes longest is waited for first."""
    scaling.begin(bed)
    pools.add_outside(bed, holding.enter(bed, directory, WORKLOAD))
    pools.add_eks(bed)
    pools.add_lattice(bed)
    scaling.grow(bed)
    with scaling.asking(bed, directory):
        pools.end_outside(bed)
        pools.end_eks(bed)
        pools.end_lattice(bed)
        scaling.shrink(bed)


def _named(name: str) -> RbacProfile:
    return next(one for one in shipped.EVERY if one.name == name)
