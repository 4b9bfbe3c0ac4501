"""Labels: roles of nodes are spelled otherwise in the other API; what only one of them understands stays there."""

from collections.abc import Mapping

NODE_ROLE = "node-role.kubernetes.io/"
ROLE = "machine.openshift.io/cluster-api-machine-role"
TYPE = "machine.openshift.io/cluster-api-machine-type"
COLUMNS = frozenset(f"machine.openshift.io/{name}" for name in ("instance-type", "region", "zone"))
"""What Machine API shows in columns of kubectl: it fills them in itself."""
CLUSTER_API = "cluster.x-k8s.io/"

Labels = Mapping[str, str]


def to_cluster_api(labels: Labels) -> dict[str, str]:
    roles = {NODE_ROLE + labels[key]: "" for key in (ROLE, TYPE) if key in labels}
    return {key: value for key, value in labels.items() if key not in (ROLE, TYPE) and key not in COLUMNS} | roles


def to_machine_api(labels: Labels) -> dict[str, str]:
    """Of several roles the first by name: Machine API has room for one."""
    found = {key: value for key, value in labels.items() if CLUSTER_API not in key and not key.startswith(NODE_ROLE)}
    if roles := list_roles(labels):
        found[ROLE] = found[TYPE] = roles[0]
    return found


def list_roles(labels: Labels) -> list[str]:
    return sorted(key.removeprefix(NODE_ROLE) for key in labels if key.startswith(NODE_ROLE))


def mirror_to_cluster_api(labels: Labels, there: Labels) -> dict[str, str]:
    """What labels of the mirror should be: those of the holder, and what only Cluster API understands."""
    kept = {key: value for key, value in there.items() if CLUSTER_API in key}
    return {**kept, **to_cluster_api(labels)}


def mirror_to_machine_api(labels: Labels, there: Labels) -> dict[str, str]:
    """The same the other way round. A role and a type that differ survive, as long as they are what the roles say."""
    found = {key: value for key, value in there.items() if key in COLUMNS} | to_machine_api(labels)
    given = {key: there[key] for key in (ROLE, TYPE) if key in there}
    if given and sorted(set(given.values())) == list_roles(labels):
        found = {key: value for key, value in found.items() if key not in (ROLE, TYPE)} | given
    return found
