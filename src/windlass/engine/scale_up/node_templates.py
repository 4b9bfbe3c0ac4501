"""Node templates: what a new node of each group looks like, and which pods start with it.

A healthy real node is the best example; without one, the remembered template; then what the provider says; and an
unhealthy node only as the last resort. Names, hostnames and everything transient (the autoscaler's own taints, taints
of conditions, startup and status taints) are removed.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence

from windlass import product
from windlass.engine.cluster_state import readiness
from windlass.engine.model import facts, node_groups, scale_up_status, well_known

STABLE_FOR_S = 60.0
"""How long a node must have been ready to speak for its group."""

TEMPLATE_LABEL = "cluster-autoscaler.kubernetes.io/template-node"

BETA_LABELS = (
    ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
    (facts.REGION, facts.REGION_BETA),
    (facts.ZONE, facts.ZONE_BETA),
)

Sanitize = Callable[[facts.Node], facts.Node]
"""Takes off a node what a new one would not have."""


def make_templates(
    groups: Sequence[node_groups.NodeGroup],
    nodes: Sequence[facts.Node],
    group_of: Mapping[str, node_groups.NodeGroup],
    pods_on: Callable[[str], Sequence[facts.Pod]],
    daemon_sets: Sequence[node_groups.DaemonSet],
    remembered: Mapping[str, scale_up_status.GroupTemplate],
    sanitize: Sanitize,
    force_daemon_sets: bool,
    now_s: float,
) -> tuple[dict[str, scale_up_status.GroupTemplate], dict[str, scale_up_status.GroupTemplate]]:
    """(template by group, what to remember): groups about which nothing is known have none.

    `group_of` and `pods_on` go by node name; the latter is asked of few nodes.
    """
    templates: dict[str, scale_up_status.GroupTemplate] = {}
    own = [(node, group_of[node.name].id) for node in nodes if node.name in group_of and not node.unreadable]

    def learn(node: facts.Node, group: str) -> None:
        templates[group] = _from_example(node, group, pods_on(node.name), daemon_sets, sanitize, force_daemon_sets)

    for node, id in own:
        if id not in templates and is_good_example(node, now_s):
            learn(node, id)
    ids = {group.id for group in groups}
    remember = {**remembered, **templates}
    for group in groups:
        if group.id in templates:
            continue
        if group.id in remembered:
            templates[group.id] = remembered[group.id]
        elif group.template is not None:
            made = _add_beta_labels(_name_template(sanitize(group.template), group.id))
            daemons = _find_missing_daemon_pods(made, daemon_sets, frozenset(), force=True)
            templates[group.id] = scale_up_status.GroupTemplate(made, (*group.template_pods, *daemons))
    for node, id in own:
        if id not in templates:
            learn(node, id)
    for group in groups:
        if group.id in templates and group.price_per_hour is not None:
            templates[group.id] = _with_price(templates[group.id], group.price_per_hour)
    return templates, {group: template for group, template in remember.items() if group in ids}


def drop_expired_templates(
    remembered: Mapping[str, scale_up_status.GroupTemplate],
    learned_s: Mapping[str, float],
    expire_time_s: float,
    now_s: float,
) -> dict[str, scale_up_status.GroupTemplate]:
    """The templates that were made from a real node no longer ago than `expire_time_s`."""
    return {
        group: template
        for group, template in remembered.items()
        if now_s - learned_s.get(group, now_s) <= expire_time_s
    }


def is_good_example(node: facts.Node, now_s: float) -> bool:
    """Is the node ready for a while, schedulable and staying?"""
    node_readiness = readiness.assess_node(node)
    return (
        node_readiness.is_ready
        and node_readiness.since_s + STABLE_FOR_S < now_s
        and not node.unschedulable
        and not any(taint.key == facts.TO_BE_DELETED for taint in node.taints)
    )


def _from_example(
    example: facts.Node,
    group: str,
    pods: Iterable[facts.Pod],
    daemon_sets: Sequence[node_groups.DaemonSet],
    sanitize: Sanitize,
    force: bool,
) -> scale_up_status.GroupTemplate:
    node = _name_template(sanitize(example), group)
    staying = [pod for pod in pods if not pod.is_terminating]
    kept = tuple(pod for pod in staying if well_known.is_mirror(pod) or well_known.is_daemonset(pod))
    running = frozenset(pod.owner.uid for pod in staying if pod.owner is not None and pod.owner.kind == "DaemonSet")
    return scale_up_status.GroupTemplate(node, kept + _find_missing_daemon_pods(node, daemon_sets, running, force))


def _with_price(template: scale_up_status.GroupTemplate, price: float) -> scale_up_status.GroupTemplate:
    """A node does not know what it costs; its group does."""
    annotations = {**template.node.annotations, product.PRICE_ANNOTATION: str(price)}
    return dataclasses.replace(template, node=dataclasses.replace(template.node, annotations=annotations))


def _name_template(node: facts.Node, group: str) -> facts.Node:
    name = f"template-node-for-{group}"
    return dataclasses.replace(
        node, name=name, uid="", labels={**node.labels, facts.HOSTNAME: name, TEMPLATE_LABEL: "true"}
    )


def _add_beta_labels(node: facts.Node) -> facts.Node:
    """With the old names of labels beside the new ones, as kubelets still set them."""
    old = {old: node.labels[new] for new, old in BETA_LABELS if new in node.labels}
    return dataclasses.replace(node, labels={**node.labels, **old})


def _find_missing_daemon_pods(
    node: facts.Node, daemon_sets: Iterable[node_groups.DaemonSet], running: frozenset[str], force: bool
) -> tuple[facts.Pod, ...]:
    """DaemonSet pods that are not on the example yet: all that fit by force, else those that would make their place."""
    return tuple(
        daemon_set.pod
        for daemon_set in daemon_sets
        if daemon_set.uid not in running
        and runs_on(daemon_set.pod.spec, node)
        and (force or daemon_set.is_preempting_system_node_critical)
    )


def runs_on(spec: facts.PodSpec, node: facts.Node) -> bool:
    """Would a DaemonSet with this pod run it on the node, as far as labels and taints decide?"""
    if any(node.labels.get(key) != value for key, value in spec.node_selector):
        return False
    if spec.node_affinity is not None and not spec.node_affinity.matches(node.labels, node.name):
        return False
    return all(
        any(toleration.tolerates(taint) for toleration in spec.tolerations)
        for taint in node.taints
        if taint.effect != "PreferNoSchedule"
    )
