"""Steps: what the next loop would do, instruction by instruction, each with its why."""

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.engine import plan, taints
from windlass.explain import look


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction, in words."""

    kind: str
    """The instruction's name: Resize, Drain, SetTaint …"""
    target: str
    """The group or node that it concerns."""
    text: str
    why: str = ""


def describe(at: look.Look) -> Iterator[Step]:
    """What the decision wants done, in its order."""
    for one in at.decision.plan:
        text, why = _say(at, one)
        target = one.group if isinstance(one, plan.OfGroups) else one_node(one)
        yield Step(type(one).__name__, target, text, why)


def one_node(one: plan.Instruction) -> str:
    return str(getattr(one, "node", ""))


def _say(at: look.Look, one: plan.Instruction) -> tuple[str, str]:
    match one:
        case plan.Resize(group=group, from_size=before, to_size=after):
            size = f"from {before} to {_count(after, 'node')} (at most {one.max_size})"
            return f"grow {group} {size}", _say_for_whom(at, group)
        case plan.ReduceTarget(group=group, by=by):
            return f"lower the target size of {group} by {by}", one.why
        case plan.DeleteInstances(group=group, provider_ids=ids):
            return f"delete {_count(len(ids), 'instance')} of {group}: {', '.join(ids)}", one.why
        case plan.Drain(node=node, evict=moved):
            since_s = at.decision.memory.durable.scale_down.since.get(node, at.now_s)
            pods = f"moving {_count(len(moved), 'pod')}" if moved else "nothing to move"
            return f"remove {node} of {one.group}, {pods}", f"unneeded for {at.now_s - since_s:.0f}s"
        case plan.SetTaint(node=node, key=key, effect=effect):
            why = "it is unneeded" if key == taints.DELETION_CANDIDATE else ""
            return f"taint {node} with {key}:{effect}", why
        case plan.RemoveTaint(node=node, key=key):
            why = "it is needed again" if key == taints.DELETION_CANDIDATE else "nobody removes it now"
            return f"take {key} off {node}", why
        case plan.Cordon(node=node, cordoned=cordoned):
            return f"{'cordon' if cordoned else 'uncordon'} {node}", ""
        case plan.Evict():
            return f"evict {one.namespace}/{one.name} from {one.node}", ""
        case plan.DeleteNode(node=node, group=group):
            return f"delete the machine of {node} through {group}", ""
        case plan.TakeBack(group=group, by=by):
            return f"lower {group} again by {by}", one.why
        case plan.SetConditions(namespace=namespace, name=name, conditions=said):
            told = ", ".join(f"{each.type}={each.status} ({each.reason})" for each in said)
            return f"say of ProvisioningRequest {namespace}/{name}: {told}", ""
        case plan.DeleteRequest(namespace=namespace, name=name):
            return f"delete ProvisioningRequest {namespace}/{name}", "it was answered long ago"


def _say_for_whom(at: look.Look, group: str) -> str:
    for proposal in at.decision.story.scale_ups:
        if any(one.group.id == group for one in proposal.increases):
            if proposal.choice is None:
                return "it is below its minimum"
            asked = at.decision.story.requests.helped
            if asked:
                return f"for ProvisioningRequest {', '.join(asked)}"
            return f"for {_count(len(proposal.helped), 'pending pod')}" if proposal.helped else "for pods to come"
    return ""


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
