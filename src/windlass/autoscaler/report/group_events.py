"""Events about the objects of node groups, in the management cluster.

A warning is emitted once when another controller begins to apply the size of a group, and again only after the group
was seen without such an owner.
"""

from collections.abc import Collection, Iterator

from windlass.engine import facts
from windlass.kube.events import WARNING, About, Occurrence


def tell_replicas_owned(groups: Collection[facts.NodeGroup], known: Collection[str]) -> Iterator[Occurrence]:
    """Warnings about groups whose size has an owner, but for those that are `known` to have one, by id."""
    for group in groups:
        owner = group.replicas_owner
        if owner is not None and group.id not in known:
            message = f"Node group cannot be scaled: {owner.message}"
            yield Occurrence(_about(group.id, owner), WARNING, "TopologyOwnsReplicas", message)


def _about(id: str, owner: facts.ReplicasOwner) -> About:
    kind, _, key = id.partition("/")
    namespace, _, name = key.partition("/")
    return About(owner.api_version, kind, name, namespace, owner.uid)
