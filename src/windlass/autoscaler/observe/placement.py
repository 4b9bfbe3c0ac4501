"""Where a pod wants to be: affinity, tolerations, host ports, spread; each checked as the API server checks it."""

from collections.abc import Iterable, Mapping

from windlass import selectors
from windlass.engine import facts
from windlass.kube import fields
from windlass.kube import selectors as kube_selectors
from windlass.kube.models import pods

_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES = ("Honor", "Ignore")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


Complaints = list[fields.InvalidField]
"""What counts for nothing, as kube-scheduler has it, and should be named all the same."""


def read_node_affinity(spec: pods.PodSpec, complaints: Complaints) -> selectors.NodeSelector | None:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return kube_selectors.read_affinity(required, f"spec.affinity.nodeAffinity.{_REQUIRED}", complaints)


def read_tolerations(spec: pods.PodSpec, complaints: Complaints) -> tuple[facts.Toleration, ...]:
    """Those that can tolerate a taint. One with an operator or effect that is not known tolerates none: of operators,
    Gt and Lt are such while kube-scheduler's TaintTolerationComparisonOperators is off.
    """
    found: list[facts.Toleration] = []
    for i, toleration in enumerate(spec.tolerations or ()):
        try:
            found.append(_read_toleration(toleration, f"spec.tolerations[{i}]"))
        except fields.InvalidField as error:
            complaints.append(error)
    return tuple(found)


def _read_toleration(toleration: pods.Toleration, at: str) -> facts.Toleration:
    operator = fields.choose(toleration.operator or "Equal", ("Equal", "Exists"), f"{at}.operator")
    effect = fields.choose(toleration.effect or "", _EFFECTS, f"{at}.effect")
    return facts.Toleration(toleration.key or "", operator, toleration.value or "", effect)


def read_host_ports(spec: pods.PodSpec) -> tuple[facts.HostPort, ...]:
    """Ports that the pod takes on its node for as long as it runs: plain init containers come and go."""
    sidecars = (container for container in spec.init_containers or () if container.is_sidecar)
    ports = (port for container in (*(spec.containers or ()), *sidecars) for port in container.ports or ())
    return tuple(
        facts.HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for port in ports
        if port.host_port is not None and port.host_port > 0
    )


def read_affinity(spec: pods.PodSpec, namespace: str) -> tuple[facts.PodAffinityTerm, ...]:
    return _read_terms(spec.affinity.pod_affinity if spec.affinity else None, namespace, "podAffinity")


def read_anti_affinity(spec: pods.PodSpec, namespace: str) -> tuple[facts.PodAffinityTerm, ...]:
    return _read_terms(spec.affinity.pod_anti_affinity if spec.affinity else None, namespace, "podAntiAffinity")


def _read_terms(affinity: pods.PodAffinity | None, namespace: str, name: str) -> tuple[facts.PodAffinityTerm, ...]:
    terms = (affinity.required_during_scheduling_ignored_during_execution if affinity else None) or ()
    return tuple(_read_term(t, namespace, f"spec.affinity.{name}.{_REQUIRED}[{i}]") for i, t in enumerate(terms))


def _read_term(term: pods.PodAffinityTerm, namespace: str, at: str) -> facts.PodAffinityTerm:
    if not term.topology_key:
        raise fields.InvalidField(f"{at}.topologyKey", term.topology_key, "the key of a node label")
    # Only a term that says nothing of namespaces is about the pod's own.
    is_own = not term.namespaces and term.namespace_selector is None
    return facts.PodAffinityTerm(
        topology_key=term.topology_key,
        selector=kube_selectors.read_labels(term.label_selector, f"{at}.labelSelector"),
        namespaces=(namespace,) if is_own else tuple(sorted(set(term.namespaces or ()))),
        namespace_selector=kube_selectors.read_labels(term.namespace_selector, f"{at}.namespaceSelector"),
    )


def read_spread(spec: pods.PodSpec, labels: Mapping[str, str]) -> tuple[facts.SpreadConstraint, ...]:
    """Hard constraints alone; soft ones never refuse a node."""
    constraints = enumerate(spec.topology_spread_constraints or ())
    read = (_read_constraint(c, labels, f"spec.topologySpreadConstraints[{i}]") for i, c in constraints)
    return tuple(constraint for constraint in read if constraint is not None)


def _read_constraint(
    constraint: pods.TopologySpreadConstraint, labels: Mapping[str, str], at: str
) -> facts.SpreadConstraint | None:
    when = constraint.when_unsatisfiable
    if fields.choose(when, ("DoNotSchedule", "ScheduleAnyway"), f"{at}.whenUnsatisfiable") == "ScheduleAnyway":
        return None
    if not constraint.topology_key:
        raise fields.InvalidField(f"{at}.topologyKey", constraint.topology_key, "the key of a node label")
    selector = kube_selectors.read_labels(constraint.label_selector, f"{at}.labelSelector")
    affinity_policy = constraint.node_affinity_policy or "Honor"
    taints_policy = constraint.node_taints_policy or "Ignore"
    return facts.SpreadConstraint(
        topology_key=constraint.topology_key,
        max_skew=_read_positive(constraint.max_skew, f"{at}.maxSkew"),
        selector=_match_own(selector, constraint.match_label_keys or (), labels),
        min_domains=_read_positive(1 if constraint.min_domains is None else constraint.min_domains, f"{at}.minDomains"),
        honor_affinity=fields.choose(affinity_policy, _POLICIES, f"{at}.nodeAffinityPolicy") == "Honor",
        honor_taints=fields.choose(taints_policy, _POLICIES, f"{at}.nodeTaintsPolicy") == "Honor",
    )


def _match_own(
    selector: selectors.LabelSelector | None, keys: Iterable[str], labels: Mapping[str, str]
) -> selectors.LabelSelector | None:
    """The selector narrowed to pods that share the pod's own labels of these keys (matchLabelKeys)."""
    if selector is None:
        return None
    own = (selectors.Requirement(key, selectors.Operator.IN, (labels[key],)) for key in keys if key in labels)
    return selectors.LabelSelector.of((*selector.requirements, *own))


def _read_positive(number: int | None, at: str) -> int:
    if number is None or number < 1:
        raise fields.InvalidField(at, number, "a whole number above zero")
    return number


def read_required_features(spec: pods.PodSpec) -> frozenset[str]:
    """The features that a node must declare for this pod (kube-scheduler 1.36's NodeDeclaredFeatures)."""
    features = set()
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    rules = (rule for container in containers for rule in container.restart_policy_rules or ())
    if any(rule.action == "RestartAllContainers" for rule in rules):
        features.add("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        features.add("UserNamespacesHostNetworkSupport")
    return frozenset(features)
