"""Holding rights: ServiceAccounts that have what a list declares and nothing else, and processes that run as them."""

import contextlib
import dataclasses
from pathlib import Path

from testbed import openshift
from testbed.bed import Bed
from tests.e2e import operating as processes
from windlass.kube import rights
from windlass.kube.rights import Account, Rights


def move(one: Rights, to: Account, home: str = "") -> Rights:
    """The same rights, given to another account, in its namespace where they were in that of the former one."""
    before = home if one.account is None else one.account.namespace
    grants = tuple(
        dataclasses.replace(grant, namespace=to.namespace) if grant.namespace and grant.namespace == before else grant
        for grant in one.grants
    )
    return dataclasses.replace(one, name=f"{one.name}-{to.name}", account=to, grants=grants)


def give(bed: Bed, *given: Rights) -> None:
    """Make the objects of these lists; the namespaces that they speak of are there afterwards."""
    for one in given:
        for body in rights.spell(one):
            add_namespace(bed, body["metadata"].get("namespace", ""))
            bed.api.add(body)


def add_namespace(bed: Bed, name: str) -> None:
    if name and bed.api.find(f"/api/v1/namespaces/{name}") is None:
        bed.api.add({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})


def enter(bed: Bed, directory: Path, account: Account) -> Path:
    """The kubeconfig of an account."""
    token = openshift.token(bed.api, account.namespace, account.name)
    return openshift.write_kubeconfig(directory / f"{account.namespace}-{account.name}", bed.kubeconfig, token)


def operating(
    bed: Bed, directory: Path, controllers: str, account: Account, *flags: str
) -> contextlib.AbstractContextManager[None]:
    """Controllers as a process of their own."""
    kubeconfig, log = enter(bed, directory, account), directory / f"{controllers}.log"
    return processes.run(kubeconfig, log, controllers, "--leader-elect-namespace", account.namespace, *flags)
