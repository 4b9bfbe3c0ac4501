"""Nodes: taints and cordons, written without losing what others write at the same time.

All that a plan wants of one node is written at once. The node is read, changed and put back as it was but for that; if
someone else was faster, again from the start, for a while.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from windlass.engine import plan
from windlass.kube import client, errors, resources

Change: TypeAlias = plan.SetTaint | plan.RemoveTaint | plan.Cordon

_NODES = resources.NODES.untyped()
_TRY_AGAIN_S = 0.75
_TRY_FOR_S = 5.0

Written: TypeAlias = dict[str, Any]


async def change(api: client.Client, name: str, changes: Sequence[Change], uid: str = "") -> None:
    """Make these changes to a node, if they are not made already. A node that is gone needs none.

    `uid`: of the node that they were decided for, if it is known. Another one that came under its name is left alone.
    """
    until_s = api.clock.monotonic_s() + _TRY_FOR_S
    while True:
        try:
            node = await api.get(_NODES, name)
            if uid and node["metadata"].get("uid") != uid:
                return
            if apply(node, changes):
                await api.update(_NODES, node)
            return
        except errors.NotFound:
            return
        except errors.Conflict:
            if api.clock.monotonic_s() >= until_s:
                raise
        await api.clock.sleep(_TRY_AGAIN_S)


def apply(node: Written, changes: Sequence[Change]) -> bool:
    """Make these changes to a node, in their order. Whether anything is different now."""
    spec = node.setdefault("spec", {})
    before = (list(spec.get("taints") or ()), bool(spec.get("unschedulable")))
    for one in changes:
        _APPLY[type(one)](spec, one)
    return (list(spec.get("taints") or ()), bool(spec.get("unschedulable"))) != before


def _set_taint(spec: Written, order: plan.SetTaint) -> None:
    others = [one for one in spec.get("taints") or () if (one["key"], one["effect"]) != (order.key, order.effect)]
    spec["taints"] = [*others, {"key": order.key, "value": order.value, "effect": order.effect}]


def _remove_taint(spec: Written, order: plan.RemoveTaint) -> None:
    spec["taints"] = [one for one in spec.get("taints") or () if one["key"] != order.key]


def _cordon(spec: Written, order: plan.Cordon) -> None:
    if order.cordoned:
        spec["unschedulable"] = True
    else:
        spec.pop("unschedulable", None)


_APPLY: dict[type, Callable[[Written, Any], None]] = {
    plan.SetTaint: _set_taint,
    plan.RemoveTaint: _remove_taint,
    plan.Cordon: _cordon,
}
