"""Holding devices: what placing a pod on a node takes, and what taking it off gives back.

Pods that exist hold claims by name. Pods that are only imagined, so many of a shape, hold devices for claims like
those of the shape; only a claim that others use too is allocated by its name, for all of them.
"""

from dataclasses import replace

import numpy as np

from windlass.engine import dtypes, facts
from windlass.engine.devices import asking
from windlass.engine.devices.asking import NOWHERE, Ask, State
from windlass.engine.devices.model import ClaimKey, ClaimSpec
from windlass.engine.devices.outcome import Found
from windlass.engine.devices.table import Answer, DeviceTable
from windlass.engine.nodes import NodeTable

SPECIAL = ClaimKey("", "<extended-resources>")
"""Stands for the claim that the scheduler makes for extended resources."""


def specs_at(
    table: DeviceTable, nodes: NodeTable, ask: Ask, row: int
) -> tuple[tuple[ClaimKey, ...], tuple[ClaimSpec, ...]]:
    """The claims that must be allocated on a node: those that are missing, and one for extended resources."""
    keys = tuple(key for key, _ in ask.missing)
    specs = tuple(spec for _, spec in ask.missing)
    if not ask.extended:
        return keys, specs
    backed = [one for one in ask.extended if is_backed(nodes, one.resource)[row]]
    if not backed and not ask.has_claims:
        return keys, specs
    return (*keys, SPECIAL), (*specs, asking.claim_for(table.stock, backed))


def is_backed(nodes: NodeTable, resource: str) -> dtypes.Mask:
    """Bool (n_nodes): the node has none of the resource by itself, so that devices must stand for it."""
    column = nodes.resources.find(resource)
    return np.ones(nodes.count, bool) if column == dtypes.ABSENT else nodes.allocatable[column] == 0


def hold(
    table: DeviceTable, nodes: NodeTable, namespace: str, spec: facts.PodSpec, rows: list[int], counts: list[int]
) -> None:
    """So many pods like this are placed on each of these nodes. Where devices are missing, none are taken."""
    ask = table.ask_for_copy(namespace, spec)
    if isinstance(ask, asking.Refused) or not (ask.missing or ask.extended):
        return
    if ask.is_private:
        _hold_alike(table, nodes, ask, rows, counts)
        return
    for row in rows:
        _take(table, nodes, ask, row, "")  # the claim is allocated once, however many use it


def _hold_alike(table: DeviceTable, nodes: NodeTable, ask: Ask, rows: list[int], counts: list[int]) -> None:
    known: dict[tuple[object, ...], int | None] = {}
    for row, count in zip(rows, counts, strict=True):
        place = table.place_of(row)
        _, specs = specs_at(table, nodes, ask, row)
        question = table.question(specs) if specs else None
        if question is None:
            continue
        for _ in range(count):
            key = (*place, question)
            used = known.get(key)
            if used is None:
                answer = table.answer(place, question)
                if not isinstance(answer.outcome, Found):
                    break
                used = answer.used
                if answer.shared_used == table.shared_used:
                    known[key] = used
                table.set_shared_used(answer.shared_used)
            place = (place[0], used, place[2])
        table.set_used(row, place[1])


def hold_for(table: DeviceTable, nodes: NodeTable, uid: str, namespace: str, spec: facts.PodSpec, row: int) -> None:
    """A pod that exists is placed on a node: its claims are allocated there, and it uses those that were before."""
    ask = table.ask(namespace, spec)
    if isinstance(ask, asking.Refused):
        return
    if ask.missing or ask.extended:
        _take(table, nodes, ask, row, uid)
    for one in spec.claims:
        key = ClaimKey(namespace, one.claim or "")
        if one.claim and key in table.stock.claims:
            state = table.state(key)
            if state.is_allocated and uid not in state.reserved:
                table.set_state(key, _with(state, state.reserved | {uid}))


def _take(table: DeviceTable, nodes: NodeTable, ask: Ask, row: int, uid: str) -> None:
    keys, specs = specs_at(table, nodes, ask, row)
    if not specs:
        return
    answer = table.answer(table.place_of(row), table.question(specs))
    if not isinstance(answer.outcome, Found):
        return
    table.set_used(row, answer.used)
    table.set_shared_used(answer.shared_used)
    for number, key in enumerate(keys):
        if key != SPECIAL:
            table.set_state(key, _allocated(table, answer, number, row, uid))


def _allocated(table: DeviceTable, answer: Answer, number: int, row: int, uid: str) -> State:
    assert isinstance(answer.outcome, Found)
    results = answer.outcome.results[number]
    local = tuple(result for result in results if table.is_own(row, result))
    others = tuple(result for result in results if not table.is_own(row, result))
    return State(
        is_allocated=True,
        row=row if local else NOWHERE,
        local=local,
        shared=others,
        reaches=answer.outcome.reaches[number],
        bound_to=row if local or answer.outcome.binds_to_node[number] else NOWHERE,
        reserved=frozenset({uid} - {""}),
    )


def release(table: DeviceTable, uid: str, namespace: str, spec: facts.PodSpec) -> None:
    """A pod is taken off its node: claims that are its own, or that nobody else uses, are given back."""
    for one in spec.claims:
        key = ClaimKey(namespace, one.claim or "")
        claim = table.stock.claims.get(key)
        if not one.claim or claim is None:
            continue
        state = table.state(key)
        left = state.reserved - {uid}
        if state.is_allocated and (not left or (claim.owner_uid and claim.owner_uid == uid)):
            table.give_back(state)
            table.set_state(key, State(reserved=left))
        elif left != state.reserved:
            table.set_state(key, _with(state, left))


def _with(state: State, reserved: frozenset[str]) -> State:
    return replace(state, reserved=reserved)
