"""Provider protocol: observe node groups, resize them, delete nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass import errors
from windlass.engine.model import facts, node_groups, plan


@dataclass(frozen=True, slots=True)
class ObservedNodeGroups:
    """Observed node groups, sorted by id, and what was left out with the reason.

    The provider id of an instance with a node equals the node's, character by character: a provider normalizes it here.
    """

    groups: tuple[node_groups.NodeGroup, ...] = ()
    held: tuple[node_groups.HeldGroup, ...] = ()
    """Groups that exist but must not be changed now, with the reason; not part of `groups`."""
    set_aside: tuple[errors.InvalidObject, ...] = ()
    machine_drain_rules: tuple[node_groups.MachineDrainRule, ...] = ()
    """MachineDrainRules that instances refer to."""


class ProviderError(errors.WindlassError):
    """A change failed. `error` has the form of an instance creation error."""

    def __init__(self, error: node_groups.InstanceError) -> None:
        super().__init__(error.message or error.code)
        self.error = error


class Provider(Protocol):
    """A cloud provider. `observe` reads cached state; only changes do I/O.

    Changes are idempotent. A failed change raises ProviderError; partial effects are undone where possible, and the
    next observation shows the rest.
    """

    @property
    def unavailable_reason(self) -> str:
        """Why no group can be changed now, such as an unreachable management cluster; else empty."""

    def observe(self, nodes: Sequence[facts.Node]) -> ObservedNodeGroups:
        """The node groups, given the existing nodes."""

    async def resize(self, order: plan.Resize) -> None:
        """Raise the target size of a group to `to_size`; does nothing if it is at least that."""

    async def reduce_target(self, order: plan.ReduceTarget) -> None:
        """Lower the target size of a group, at least to the number of its instances."""

    async def delete_instances(self, order: plan.DeleteInstances) -> None:
        """Delete instances without nodes, and lower the target size accordingly."""

    async def delete_nodes(self, group: str, nodes: Sequence[facts.Node]) -> Mapping[str, ProviderError]:
        """Delete the machines of these nodes, and lower the target size accordingly.

        Returns the names of nodes whose machines could not be deleted while others were; ProviderError if none was. A
        node whose machine is already gone counts as deleted.
        """
