"""DynamicResources: a pod's claims must be there, usable from the node, or allocatable from devices that the node sees.

A pod without claims that requests no resource for which a device class stands is not looked at.
"""

from collections.abc import Callable

import numpy as np

from windlass.engine import dtypes, shapes
from windlass.engine.devices import asking, holding, views
from windlass.engine.devices.asking import Ask, Refused, State
from windlass.engine.devices.outcome import Failed, Found
from windlass.engine.devices.table import UNLIMITED, DeviceTable, Place
from windlass.engine.predicates.config import FilterConfig
from windlass.engine.snapshot import Snapshot
from windlass.engine.verdict import Code, Reason, Refusal

NAME = "DynamicResources"
NOT_ENOUGH = Reason("cannot allocate all claims")
NOT_HERE = Reason("resourceclaim not available on the node")
STALE = Reason("cannot schedule extended resource claim")


def refuse(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> Refusal | None:
    """A claim that is missing, going, another pod's, or of a class that there is not refuses all nodes."""
    found = _ask(snapshot, shape)
    if not isinstance(found, Refused):
        return None
    if found.is_error:
        return Refusal(NAME, Code.ERROR, (Reason(f'running PreFilter plugin "{NAME}": {found.text}'),))
    return Refusal(NAME, Code.UNRESOLVABLE, (Reason(found.text),))


def mask(snapshot: Snapshot, shape: shapes.Shape, config: FilterConfig) -> dtypes.Mask | None:
    """Bool (n_nodes): True where all claims can be had; None if the pod has none."""
    found = _ask(snapshot, shape)
    if isinstance(found, Refused) or found.is_empty:
        return None
    if found.is_stale:
        return np.zeros(snapshot.nodes.count, bool)
    allowed = usable(snapshot, found, config)
    answered = _answer(snapshot, found, _is_found, 1)
    return allowed if answered is None else allowed & (answered > 0)


def count_room(snapshot: Snapshot, shape: shapes.Shape) -> dtypes.Amounts | None:
    """Int64 (n_nodes): for how many pods of the shape each node has devices; None if they do not limit it."""
    found = _ask(snapshot, shape)
    if isinstance(found, Refused) or found.is_empty:
        return None
    return _answer(snapshot, found, DeviceTable.room, UNLIMITED)


def is_countable(snapshot: Snapshot, shape: shapes.Shape) -> bool:
    """Do pods of the shape mind each other by the devices of their own node only?"""
    found = _ask(snapshot, shape)
    if isinstance(found, Refused) or found.is_empty:
        return True
    if not found.is_private:
        return False
    if not snapshot.devices.stock.shared:
        return True
    taken = _answer(snapshot, found, _takes_shared, 0)
    return taken is None or not taken.any()


def explain(snapshot: Snapshot, shape: shapes.Shape, row: int, config: FilterConfig) -> Refusal:
    found = _ask(snapshot, shape)
    assert isinstance(found, Ask), "refused before any node"
    if found.is_stale:
        return Refusal(NAME, Code.UNRESOLVABLE, (STALE,))
    keys, specs = holding.specs_at(snapshot.devices, snapshot.nodes, found, row)
    if specs:
        outcome = snapshot.devices.explain(row, snapshot.devices.question(specs))
        if outcome is None:
            return Refusal(NAME, Code.UNRESOLVABLE, (NOT_ENOUGH,))
        if isinstance(outcome, Failed):
            text = outcome.tell([f"{shape.namespace}/{key.name}" for key in keys])
            if outcome.is_of_node:
                return Refusal(NAME, Code.UNRESOLVABLE, (Reason(text),))
            return Refusal(NAME, Code.ERROR, (Reason(f'running "{NAME}" filter plugin: {text}'),))
    return Refusal(NAME, Code.UNRESOLVABLE, (NOT_HERE,))


def _ask(snapshot: Snapshot, shape: shapes.Shape) -> Ask | Refused:
    if not (shape.spec.claims or shape.spec.extended):
        return asking.NOTHING
    if not snapshot.forks:
        snapshot.devices.sync()
    return snapshot.devices.ask(shape.namespace, shape.spec)


def usable(snapshot: Snapshot, found: Ask, config: FilterConfig) -> dtypes.Mask:
    """Bool (n_nodes): from where the claims that are allocated can be used."""
    allowed = np.ones(snapshot.nodes.count, bool)
    for state in found.allocated:
        allowed &= _usable(snapshot, state, config)
    return allowed


def _usable(snapshot: Snapshot, state: State, config: FilterConfig) -> dtypes.Mask:
    nodes, since_s = snapshot.nodes, state.waiting_since_s
    is_late = since_s is not None and since_s + config.binding_timeout_s < snapshot.now_s
    allowed = np.full(nodes.count, not (state.has_failed or is_late))
    if state.bound_to != asking.NOWHERE:
        allowed &= np.arange(nodes.count) == state.bound_to
    if state.selector is not None:
        allowed &= nodes.selector_mask(state.selector)
    for reach in state.reaches:
        if not reach.node_name:
            allowed &= views.reach_mask(nodes, reach)
    return allowed


def _answer(
    snapshot: Snapshot, found: Ask, ask: Callable[[DeviceTable, Place, int], int], otherwise: int
) -> dtypes.Amounts | None:
    """Int64 (n_nodes): what is answered for each node, asked once for nodes that are alike; None: nothing to allocate.

    `otherwise` is for nodes that have by themselves what devices would stand for.
    """
    if not (found.missing or found.extended):
        return None
    table, nodes = snapshot.devices, snapshot.nodes
    kinds = table.kinds()
    if not found.extended:
        question = table.question([spec for _, spec in found.missing])
        answers = [ask(table, place, question) for place in kinds.places]
        return np.array(answers, dtypes.RESOURCE)[kinds.of_nodes]
    backed = np.stack([kinds.of_nodes, *(holding.is_backed(nodes, one.resource) for one in found.extended)])
    distinct, first, inverse = np.unique(backed, axis=1, return_index=True, return_inverse=True)
    answers = []
    for kind, row in zip(distinct[0].tolist(), first.tolist(), strict=True):
        _, specs = holding.specs_at(table, nodes, found, row)
        answers.append(ask(table, kinds.places[kind], table.question(specs)) if specs else otherwise)
    return np.array(answers, dtypes.RESOURCE)[inverse.reshape(-1)]


def _is_found(table: DeviceTable, place: Place, question: int) -> int:
    return isinstance(table.answer(place, question).outcome, Found)


def _takes_shared(table: DeviceTable, place: Place, question: int) -> int:
    answer = table.answer(place, question)
    return isinstance(answer.outcome, Found) and answer.shared_used != table.shared_used
