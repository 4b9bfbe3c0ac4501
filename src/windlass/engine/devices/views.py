"""Views: which of the shared pools each node sees, numbered so that nodes which see the same have one number."""

from dataclasses import dataclass, field

import numpy as np

from windlass import releases
from windlass.engine import dtypes, interning
from windlass.engine.devices import pools
from windlass.engine.devices.kits import Kit
from windlass.engine.devices.model import PoolId, Reach, Slices
from windlass.engine.nodes import NodeTable


@dataclass(slots=True)
class Views:
    """What nodes see of these slices."""

    version: int = 0
    """Of the slices: what nodes see of another version is kept under another name."""
    slices: Slices = ()
    every: dict[PoolId, Slices] = field(default_factory=dict)
    """All slices of each pool."""
    release: releases.Release = releases.DEFAULT
    _reaches: list[Reach] = field(default_factory=list)
    _views: interning.Index[tuple[bool, ...]] = field(default_factory=interning.Index)
    _sights: dict[tuple[int, int], pools.Sight] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found = {one.reach: None for one in self.slices}
        found |= {device.reach: None for one in self.slices if one.is_per_device for device in one.devices}
        self._reaches = list(found)
        self._views.intern(tuple(False for _ in self._reaches))

    def of_nodes(self, nodes: NodeTable) -> dtypes.Ids:
        """Int32 (n_nodes): the view of each."""
        if not self.slices:
            return np.zeros(nodes.count, dtypes.ID)
        return nodes.kept(("device views", self.version), lambda rows: self._compute(nodes, rows))

    def _compute(self, nodes: NodeTable, rows: slice) -> dtypes.Ids:
        seen = np.array([reach_mask(nodes, reach)[rows] for reach in self._reaches])
        distinct, inverse = np.unique(seen, axis=1, return_inverse=True)
        numbers = [self._views.intern(tuple(column)) for column in distinct.T.tolist()]
        return np.array(numbers, dtypes.ID)[inverse.reshape(-1)]

    def look(self, number: int, kit: Kit, kit_number: int) -> pools.Sight:
        """All that a node with this view and this kit sees."""
        key = number, kit_number
        if key not in self._sights:
            self._sights[key] = self.look_at(number, kit.slices)
        return self._sights[key]

    def look_at(self, number: int, own: Slices) -> pools.Sight:
        """The same, of a node with slices of its own."""
        reached = dict(zip(self._reaches, self._views[number], strict=True))
        pools_here = {one.pool_id for one in own}
        shared = [
            one
            for one in self.slices
            if one.pool_id not in pools_here
            and (
                (one.counters and not self.release.sees_counters_of_own_pools_only)
                or reached[one.reach]
                or (one.is_per_device and any(reached[device.reach] for device in one.devices))
            )
        ]
        every = dict(self.every)
        for id in pools_here:
            every[id] = tuple(one for one in own if one.pool_id == id)
        return pools.look((*own, *shared), every, lambda reach: reached.get(reach, True))


def reach_mask(nodes: NodeTable, reach: Reach) -> dtypes.Mask:
    """Bool (n_nodes): the nodes from which something with this reach can be used."""
    if reach.node_name:
        return nodes.name_mask((reach.node_name,))
    if reach.all_nodes:
        return np.ones(nodes.count, bool)
    if reach.node_selector is not None:
        return nodes.selector_mask(reach.node_selector)
    return np.zeros(nodes.count, bool)
