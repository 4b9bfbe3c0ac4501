"""OpenShift, as far as autoscaling can tell: its definitions and configuration, our kinds, rights, and policies."""

from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from testbed import modules, openshift
from testbed.bed import Bed
from tests.controllers.machine_pool.management_cluster import definition

DEPLOY = Path(__file__).parents[2] / "deploy"
CLUSTER = "work"
RELEASE = "4.21.0"
GATE = "ClusterAPIMachineManagementAWS"
CONFIG = "/apis/config.openshift.io/v1"


def install(bed: Bed, roles: Iterable[str], *more_kinds: str) -> None:
    """All but the policies, with the gate for Cluster API on. Skips where OpenShift's definitions cannot be had."""
    try:
        openshift.install(bed.api)
        for body in openshift.config_definitions():
            openshift.define(bed.api, body)
    except modules.Missing as missing:
        pytest.skip(f"NOT JUDGED: OpenShift's definitions cannot be had: {missing}")
    define_monitoring(bed)
    for name in ("autoscaling.openshift.io_*.yaml", *more_kinds):
        for path in sorted((DEPLOY / "crds").glob(name)):
            openshift.define(bed.api, yaml.safe_load(path.read_text()))
    for name in roles:
        openshift.add_all(bed.api, DEPLOY / "rbac" / f"{name}.yaml")
    _configure(bed)


def define_monitoring(bed: Bed) -> None:
    """The kinds of OpenShift's monitoring."""
    for kind in ("ServiceMonitor", "PrometheusRule"):
        openshift.define(bed.api, definition("monitoring.coreos.com", kind, "v1"))


def enforce(bed: Bed) -> None:
    """The policies. What they do not let through has to be there before."""
    for path in sorted((DEPLOY / "policies").glob("*.yaml")):
        openshift.add_all(bed.api, path)


def _configure(bed: Bed) -> None:
    head = {"apiVersion": "config.openshift.io/v1", "metadata": {"name": "cluster"}}
    bed.api.add({**head, "kind": "Infrastructure", "spec": {"platformSpec": {"type": "AWS"}}})
    platform = {"platform": "AWS", "platformStatus": {"type": "AWS"}, "infrastructureName": CLUSTER}
    topology = {"controlPlaneTopology": "HighlyAvailable", "infrastructureTopology": "HighlyAvailable"}
    addresses = {"apiServerURL": "", "apiServerInternalURI": "", "etcdDiscoveryDomain": ""}
    bed.api.merge(f"{CONFIG}/infrastructures/cluster/status", {"status": {**platform, **topology, **addresses}})
    add_version(bed, RELEASE)
    bed.api.add({**head, "kind": "FeatureGate", "spec": {}})
    turn(bed, on=True)


def add_version(bed: Bed, version: str) -> None:
    """The ClusterVersion, once the cluster version operator has said what it is to be."""
    head = {"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}}
    bed.api.add({**head, "spec": {"clusterID": "84ef291d-8f1b-4d28-ab34-cfddff941b84"}})
    desired = {"version": version, "image": "release"}
    status = {"desired": desired, "observedGeneration": 1, "versionHash": "", "availableUpdates": [], "history": []}
    bed.api.merge(f"{CONFIG}/clusterversions/version/status", {"status": status})


def turn(bed: Bed, *, on: bool, others: Iterable[str] = ()) -> None:
    """The gate of Cluster API; those that are named are on in any case."""
    enabled = [{"name": name} for name in ([GATE] if on else []) + list(others)]
    listed = [{"version": RELEASE, "enabled": enabled, "disabled": []}]
    bed.api.merge(f"{CONFIG}/featuregates/cluster/status", {"status": {"featureGates": listed}})
