"""Ends, and what only time or others can bring about: the node is gone, is being deleted, or lost its mark.

A node that the provider agreed to delete is waited for. If it is still there after five minutes, and the provider does
not say that it is busy with it, nothing will come of it. Whether it agreed is not known where whoever asked is gone:
then it is asked again.

A provider that was busy with it and is not any more has deleted another machine instead, or was told meanwhile that it
needs as many as before. The node is empty and well: it is given back, at once but for the time that news may take.

A node whose machine is gone is only waiting for its Node object to go, and is never given back: the scheduler would put
pods on a machine that does not exist. If the object stays, the drain ends and the mark stays on.
"""

from collections.abc import Sequence

from windlass.engine import facts, plan, requests
from windlass.engine.draining.case import Case, Situation, find_open
from windlass.engine.draining.progress import Why
from windlass.engine.draining.story import Phase

_NEWS_TAKE_S = 15.0
"""How late one may hear that a machine is being deleted after all."""


def find_ends(cases: Sequence[Case], situation: Situation) -> None:
    """Settle the cases whose end has come or is no longer ours to bring about."""
    for case in cases:
        if case.node is None or is_another(case, case.node):
            case.end(Phase.GONE)
    for case, node in find_open(cases):
        if has_lost_machine(node, situation.groups.get(case.begun.group)):
            _await_node(case, situation)
        elif case.progress.deleting_s is not None:
            _await_deletion(case, node, case.progress.deleting_s, situation)
        elif case.progress.marked_s is not None and not case.has_mark:
            case.fail(Why.MARK_REMOVED)


def is_another(case: Case, node: facts.Node) -> bool:
    """Has a new node come under the name of one that is gone?"""
    uid = case.begun.uid
    if uid and node.uid:
        return uid != node.uid
    return case.progress.deleting_s is not None and not case.has_mark


def _await_deletion(case: Case, node: facts.Node, deleting_s: float, situation: Situation) -> None:
    until_s = deleting_s + requests.MAX_NODE_DELETION_S
    group = situation.groups.get(case.begun.group)
    said = situation.refused_deletions.get(case.name)
    if said is not None:
        case.fail(Why.DELETION_REFUSED, said)
    elif is_being_deleted(node, group):
        case.note(leaving_s=case.progress.leaving_s or situation.now_s, staying_s=None)
        case.wait(Phase.DELETING, until_s if situation.now_s < until_s else float("inf"))
    elif case.progress.may_be_unheard:
        case.instructions.append(plan.DeleteNode(case.name, case.begun.group))
        case.note(may_be_unheard=False, deleting_s=situation.now_s, leaving_s=None, staying_s=None)
        case.wait(Phase.DELETING, situation.now_s + requests.MAX_NODE_DELETION_S)
    elif case.progress.leaving_s is not None and group is not None:
        _await_news(case, situation)
    elif situation.now_s < until_s:
        case.wait(Phase.DELETING, until_s)
    else:
        case.fail(Why.DELETION_TIMED_OUT)


def _await_node(case: Case, situation: Situation) -> None:
    """Its machine is gone, and its Node object is not yet."""
    gone_s = situation.now_s if case.progress.gone_s is None else case.progress.gone_s
    case.note(gone_s=gone_s)
    if situation.now_s < gone_s + requests.MAX_NODE_DELETION_S:
        case.wait(Phase.DELETING, gone_s + requests.MAX_NODE_DELETION_S)
    else:
        case.end(Phase.GONE)


def _await_news(case: Case, situation: Situation) -> None:
    """Its machine was going, and does not seem to go any more."""
    staying_s = situation.now_s if case.progress.staying_s is None else case.progress.staying_s
    case.note(staying_s=staying_s)
    if situation.now_s < staying_s + _NEWS_TAKE_S:
        case.wait(Phase.DELETING, staying_s + _NEWS_TAKE_S)
    else:
        case.fail(Why.MACHINE_STAYED)


def is_being_deleted(node: facts.Node, group: facts.NodeGroup | None) -> bool:
    """Does the provider say that it is deleting the node's machine?"""
    instance = _find_instance(node, group)
    return instance is not None and instance.state == "Deleting"


def has_lost_machine(node: facts.Node, group: facts.NodeGroup | None) -> bool:
    """Does the provider know the group, and no machine of the node any more?"""
    return group is not None and bool(node.provider_id) and _find_instance(node, group) is None


def _find_instance(node: facts.Node, group: facts.NodeGroup | None) -> facts.Instance | None:
    instances = () if group is None else group.instances
    return next((one for one in instances if one.provider_id == node.provider_id), None)
