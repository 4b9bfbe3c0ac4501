"""Making room: which pods go for a more important one. The plain scheduler decides, among nodes where it can help."""

from typing import Any

import numpy as np

from windlass.simulator.scheduler import cycle, requests, scoring
from windlass.simulator.scheduler.cluster import ClusterView, NodeView, SeatedPod
from windlass.simulator.world import kinds
from windlass.simulator.world.api import Api
from windlass.simulator.world.scheduling.placing import Placing
from windlass.simulator.world.scheduling.seats import Mask
from windlass.simulator.world.scheduling.shapes import Shape

Json = dict[str, Any]

_MOST_NODES = 100
"""Of the nodes where room could be made, so many are looked at, as upstream does in a large cluster."""


def make_room(api: Api, placing: Placing, pod: Json, shape: Shape) -> cycle.Placement | cycle.Failure | None:
    """What the plain scheduler does about a pod that fits nowhere; None if preemption is out of the question."""
    if pod["spec"].get("preemptionPolicy") == "Never":
        return None
    slots = np.flatnonzero(could_help(placing, shape))
    if not len(slots):
        return None
    if shape.is_plain and not placing.tallies.unwilling(pod):
        slots = slots[:_MOST_NODES]
    else:
        # Spreading and affinity count pods everywhere.
        slots = np.flatnonzero(placing.seats.here)
    return cycle.schedule(view(api, placing, [int(slot) for slot in slots], pod), pod)


def could_help(placing: Placing, shape: Shape) -> Mask:
    """(slots,): would the pod fit if all less important pods were gone?"""
    seats = placing.seats
    lower = [held for priority, held in seats.held.items() if priority < shape.priority]
    if not lower:
        return np.zeros(len(seats.here), bool)
    wanted, reclaimed = seats.wanted(shape), np.sum(lower, axis=0)
    fits: Mask = seats.here & placing.verdicts.allows(shape) & (reclaimed[:, 0] > 0)
    for column in np.flatnonzero(wanted):
        fits &= seats.free[:, column] + reclaimed[:, column] >= wanted[column]
    return fits


def view(api: Api, placing: Placing, slots: list[int], pod: Json) -> ClusterView:
    """These nodes and the pods on them, for the plain scheduler."""
    made = ClusterView()
    seats, pods = placing.seats, api.all(kinds.PODS)
    for slot in slots:
        has = {name: int(seats.has[slot, column]) for name, column in seats.columns.items()}
        seated = {
            key: SeatedPod(pods[key], {**seat.shape.amounts}, _nonzero(seat.shape))
            for key, seat in seats.pods[slot].items()
            if key in pods
        }
        made.nodes[seats.names[slot]] = NodeView(seats.nodes[slot], has, seated)
    for budget in api.all(kinds.BUDGETS).values():
        made.put(budget)
    own = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
    for key in placing.promises:
        if key != own and key in pods:
            made.waiting[key] = pods[key]
    return made


def _nonzero(shape: Shape) -> requests.Amounts:
    return dict(zip(scoring.RESOURCES, shape.nonzero_taken.tolist(), strict=True))
