"""Holding rights: ServiceAccounts that have what a list declares and nothing else, and processes that run as them."""

import contextlib
import dataclasses
import itertools
from pathlib import Path

from testbed import api, openshift
from testbed.bed import Bed
from tests.e2e import operator_process
from windlass.kube import rbac
from windlass.kube.rbac import RbacProfile, ServiceAccount


def move(profile: RbacProfile, to: ServiceAccount, home: str = "") -> RbacProfile:
    """The same rights, given to another account, in its namespace where they were in that of the former one."""
    before = home if profile.account is None else profile.account.namespace
    grants = tuple(
        dataclasses.replace(grant, namespace=to.namespace) if grant.namespace and grant.namespace == before else grant
        for grant in profile.grants
    )
    return dataclasses.replace(profile, name=f"{profile.name}-{to.name}", account=to, grants=grants)


def give(bed: Bed, *given: RbacProfile) -> None:
    """Make the objects of these lists, and wait until they count; the namespaces that they speak of are there then."""
    for profile in given:
        for body in rbac.to_manifests(profile):
            add_namespace(bed, body["metadata"].get("namespace", ""))
            bed.api.add(body)
    for profile in given:
        for grant in profile.grants if profile.account is not None else ():
            _wait_granted(bed, dataclasses.replace(profile, grants=(grant,)))


def _wait_granted(bed: Bed, profile: RbacProfile) -> None:
    """The server hears of roles and bindings by watches, and refuses until then: one right of each grant is tried."""
    assert profile.account is not None
    for right in itertools.islice(rbac.list_permissions(profile), 1):
        resource, _, subresource = right.resource.partition("/")
        what = {"resource": resource, "subresource": subresource, "verb": right.verb, "group": right.group}
        spec = {
            "user": profile.account.user,
            "resourceAttributes": {**what, "namespace": right.namespace, "name": right.name},
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {}, "spec": spec}
        api.wait_for(f"{spec['user']}: {right}", lambda: bed.api.add(review)["status"]["allowed"])  # noqa: B023


def add_namespace(bed: Bed, name: str) -> None:
    if name and bed.api.find(f"/api/v1/namespaces/{name}") is None:
        bed.api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def enter(bed: Bed, directory: Path, account: ServiceAccount) -> Path:
    """The kubeconfig of an account."""
    token = openshift.token(bed.api, account.namespace, account.name)
    return openshift.write_kubeconfig(directory / f"{account.namespace}-{account.name}", bed.kubeconfig, token)


def operating(
    bed: Bed, directory: Path, controllers: str, account: ServiceAccount, *flags: str
) -> contextlib.AbstractContextManager[None]:
    """Controllers as a process of their own."""
    kubeconfig, log = enter(bed, directory, account), directory / f"{controllers}.log"
    return operator_process.run(kubeconfig, log, controllers, "--leader-elect-namespace", account.namespace, *flags)
