"""Clusters whose pods and groups are hard to please: taints, affinities, spread, host ports, devices."""

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from tests.engine.loop import builders
from tests.engine.loop.strategies import ZONES, World, pick, worlds
from windlass.engine.model import facts, node_groups
from windlass.engine.observation import Observation
from windlass.selectors import LabelSelector, NodeSelector, NodeSelectorTerm, Operator, Requirement

TAINT = facts.Taint("dedicated", "batch", "NoSchedule")
APP = LabelSelector.of([Requirement("app", Operator.IN, ("a",))])
PORT = facts.HostPort("0.0.0.0", "TCP", 9100)
DAEMON_CPU = 150


@dataclass(frozen=True, slots=True)
class Fussy(World):
    """A world with a DaemonSet, which takes some cpu and perhaps a port of every node."""

    has_port: bool = False

    def observe(self) -> Observation:
        ports = (PORT,) if self.has_port else ()
        spec = facts.PodSpec(
            requests=((facts.CPU, DAEMON_CPU),),
            host_ports=ports,
            tolerations=(facts.Toleration("", "Exists", "", ""),),
        )
        pod = facts.Pod("kube-system", "agent", owner=builders.AGENT, spec=spec)
        daemon = node_groups.DaemonSet("kube-system", "agent", builders.AGENT.uid, pod)
        return builders.observe(self.groups, self.nodes, self.pods, budgets=self.budgets, daemon_sets=(daemon,))


@st.composite
def demands(draw: st.DrawFn) -> dict[str, Any]:
    """Changes of a pod's spec."""
    zone = Requirement(facts.ZONE, Operator.IN, (draw(pick(*ZONES)),))
    wishes: dict[str, Any] = {
        "node_affinity": NodeSelector((NodeSelectorTerm(expressions=(zone,)),)),
        "spread": (facts.SpreadConstraint(draw(pick(facts.ZONE, facts.HOSTNAME)), 1, APP),),
        "affinity": (facts.PodAffinityTerm(facts.ZONE, APP, ("default",)),),
        "anti_affinity": (facts.PodAffinityTerm(facts.ZONE, APP, ("default",)),),
        "host_ports": (PORT,),
        "node_name": "somewhere",
        "tolerations": (facts.Toleration("dedicated", "Equal", "batch", ""),),
        "node_selector": (("disk", "ssd"),),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(wishes)), min_size=1, max_size=3))
    return {name: wishes[name] for name in chosen}


@st.composite
def fussy_worlds(draw: st.DrawFn) -> Fussy:
    world = draw(worlds(least_pending=1))
    tainted = {group.id for group in world.groups if draw(st.booleans())}
    own = {instance.provider_id: group.id for group in world.groups for instance in group.instances}
    nodes = tuple(
        replace(node, taints=(*node.taints, TAINT)) if own.get(node.provider_id) in tainted else node
        for node in world.nodes
    )
    groups = tuple(
        replace(group, template=replace(group.template, taints=(TAINT,)))
        if group.id in tainted and group.template is not None
        else group
        for group in world.groups
    )
    pods = tuple(pod if pod.node_name else _demand(pod, draw(demands()), draw(pick(0, 0, 1))) for pod in world.pods)
    return Fussy(groups, nodes, pods, world.budgets, draw(st.booleans()))


def _demand(pod: facts.Pod, changes: dict[str, Any], gpus: int) -> facts.Pod:
    asked = (*pod.spec.requests, ("nvidia.com/gpu", gpus)) if gpus else pod.spec.requests
    spec = replace(pod.spec, requests=tuple(sorted(asked)), **changes)
    return replace(pod, spec=spec, digest=f"{pod.digest} {sorted(changes)} {gpus}")
