"""Ownership: who belongs to whom, as owner references and labels."""

import dataclasses
from typing import Any

from windlass.controllers.machine_pool import names
from windlass.controllers.machine_pool.facts import Cluster, External, Owner, Pool
from windlass.controllers.machine_pool.plan import Adopt


def controlled_by(pool: Pool) -> Owner:
    """The reference by which an object says that the pool controls it."""
    return Owner(pool.api_version, "MachinePool", pool.name, pool.uid, controller=True, block_owner_deletion=True)


def join(pool: Pool, cluster: Cluster) -> Pool:
    """The pool as one that belongs to its cluster."""
    owner = Owner(pool.api_version, "Cluster", cluster.name, cluster.uid)
    labels = {**pool.labels, names.CLUSTER_NAME_LABEL: pool.cluster_name}
    return dataclasses.replace(pool, owners=insert(pool.owners, owner), labels=labels)


def adopt(pool: Pool, external: External) -> Adopt | None:
    """What it takes for a provider's object to belong to the pool; None if it does already."""
    owners = insert(external.owners, controlled_by(pool))
    labels = {} if external.labels.get(names.CLUSTER_NAME_LABEL) == pool.cluster_name else _label(pool)
    if owners == external.owners and not labels:
        return None
    return Adopt(external, owners, labels)


def find_rival(pool: Pool, external: External) -> Owner | None:
    """Another object that controls a provider's object."""
    own = controlled_by(pool)
    return next((owner for owner in external.owners if owner.controller and not owner.is_same_object(own)), None)


def insert(owners: tuple[Owner, ...], wanted: Owner) -> tuple[Owner, ...]:
    """The owners with this one in the place of one of its name, or behind the others."""
    if any(owner.is_same_object(wanted) for owner in owners):
        return tuple(wanted if owner.is_same_object(wanted) else owner for owner in owners)
    return (*owners, wanted)


def spell(owner: Owner) -> dict[str, Any]:
    """As the API spells it."""
    body: dict[str, Any] = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    if owner.controller:
        body["controller"] = True
    if owner.block_owner_deletion:
        body["blockOwnerDeletion"] = True
    return body


def _label(pool: Pool) -> dict[str, str]:
    return {names.CLUSTER_NAME_LABEL: pool.cluster_name}
