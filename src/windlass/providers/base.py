"""What every provider can do: say what groups there are, and change them when told to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from windlass import errors
from windlass.engine.model import facts, node_groups, plan


@dataclass(frozen=True, slots=True)
class ObservedNodeGroups:
    """The node groups as they are now, sorted by id, and what had to be left out and why.

    An instance that has a node carries the node's own provider id, letter by letter: whatever a provider must normalise
    to bring both together, it does here.
    """

    groups: tuple[node_groups.NodeGroup, ...] = ()
    held: tuple[node_groups.HeldGroup, ...] = ()
    """Those that exist and must be left alone for now. None of them is among `groups`."""
    set_aside: tuple[errors.InvalidObject, ...] = ()
    machine_drain_rules: tuple[node_groups.MachineDrainRule, ...] = ()
    """Those that instances name."""


class ProviderError(errors.WindlassError):
    """The provider could not do what it was told. `error` says why, as instances that cannot be created do."""

    def __init__(self, error: node_groups.InstanceError) -> None:
        super().__init__(error.message or error.code)
        self.error = error


class Provider(Protocol):
    """Node groups of one kind. Observing reads what is known already; only changes wait for anyone.

    Every change is idempotent: told twice, it is done once. `Refused` where it could not be done; what was done of it
    by then is undone as far as possible, and shows in the next observation.
    """

    @property
    def unavailable_reason(self) -> str:
        """Why no group can be changed now: whoever looks after them cannot be reached. Empty while they can."""

    def observe(self, nodes: Sequence[facts.Node]) -> ObservedNodeGroups:
        """The groups, given the nodes that exist."""

    async def resize(self, order: plan.Resize) -> None:
        """Raise a group to `to_size`; nothing is done if it is as large or larger."""

    async def reduce_target(self, order: plan.ReduceTarget) -> None:
        """Lower a group's target size, never below the instances that exist."""

    async def delete_instances(self, order: plan.DeleteInstances) -> None:
        """Delete instances without nodes, and lower the target size by as many."""

    async def delete_nodes(self, group: str, nodes: Sequence[facts.Node]) -> Mapping[str, ProviderError]:
        """Delete the machines of these nodes, and lower the target size by as many.

        Returns the nodes, by name, whose machines could not be deleted while others were; `Refused` if none could.
        A node whose machine is gone needs no deletion.
        """
