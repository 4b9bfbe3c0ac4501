"""Scheduling constraints of pods: affinity, tolerations, host ports, topology spread; validated like the API server."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from windlass import scheduler_releases, selectors
from windlass.engine.model import facts
from windlass.kube import fields
from windlass.kube import selectors as kube_selectors
from windlass.kube.models import pods

_EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES = ("Honor", "Ignore")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


Warnings = list[fields.InvalidField]
"""Warnings about fields that are ignored, as in kube-scheduler."""
Terms = Sequence[pods.PodAffinityTerm]


def read_node_affinity(spec: pods.PodSpec, complaints: Warnings) -> selectors.NodeSelector | None:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return kube_selectors.parse_node_affinity(required, f"spec.affinity.nodeAffinity.{_REQUIRED}", complaints)


def read_tolerations(
    spec: pods.PodSpec,
    complaints: Warnings,
    release: scheduler_releases.SchedulerRelease = scheduler_releases.DEFAULT_RELEASE,
) -> tuple[facts.Toleration, ...]:
    """Read tolerations. One with an unknown operator or effect tolerates nothing and is dropped."""
    tolerations: list[facts.Toleration] = []
    for i, toleration in enumerate(spec.tolerations or ()):
        try:
            tolerations.append(_read_toleration(toleration, f"spec.tolerations[{i}]", release))
        except fields.InvalidField as error:
            complaints.append(error)
    return tuple(tolerations)


def _read_toleration(
    toleration: pods.Toleration, at: str, release: scheduler_releases.SchedulerRelease
) -> facts.Toleration:
    known = ("Equal", "Exists", "Gt", "Lt") if release.compares_tolerations else ("Equal", "Exists")
    operator = fields.read_enum(toleration.operator or "Equal", known, f"{at}.operator")
    effect = fields.read_enum(toleration.effect or "", _EFFECTS, f"{at}.effect")
    return facts.Toleration(toleration.key or "", operator, toleration.value or "", effect)


def read_host_ports(spec: pods.PodSpec) -> tuple[facts.HostPort, ...]:
    """Read host ports that the pod uses while it runs; those of init containers are temporary."""
    sidecars = (container for container in spec.init_containers or () if container.is_sidecar)
    ports = (port for container in (*(spec.containers or ()), *sidecars) for port in container.ports or ())
    return tuple(
        facts.HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
        for port in ports
        if port.host_port is not None and port.host_port > 0
    )


@dataclass(frozen=True, slots=True)
class InterPodTerms:
    """Required inter-pod terms. A list with an unparsable term is ignored as a whole."""

    affinity: tuple[facts.PodAffinityTerm, ...] = ()
    anti_affinity: tuple[facts.PodAffinityTerm, ...] = ()
    fault: str = ""
    """kube-scheduler's message for the unparsable term, preferred ones included."""


def read_interpod(spec: pods.PodSpec, namespace: str, complaints: Warnings) -> InterPodTerms:
    if spec.affinity is None:
        return InterPodTerms()
    faults: list[str] = []
    near, away = spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity

    def read(name: str, terms: Terms, at: str) -> tuple[facts.PodAffinityTerm, ...]:
        try:
            return tuple(_read_term(term, namespace, f"{at}[{i}]") for i, term in enumerate(terms))
        except kube_selectors.InvalidSelector as error:
            complaints.append(error)
            faults.append(f"{name}: {error.message}")
            return ()

    at_near, at_away = "spec.affinity.podAffinity", "spec.affinity.podAntiAffinity"
    affinity = read("requiredAffinityTerms", _required(near, at_near), f"{at_near}.{_REQUIRED}")
    anti_affinity = read("requiredAntiAffinityTerms", _required(away, at_away), f"{at_away}.{_REQUIRED}")
    read("preferredAffinityTerms", _preferred(near), f"{at_near}.{_PREFERRED}")
    read("preferredAntiAffinityTerms", _preferred(away), f"{at_away}.{_PREFERRED}")
    return InterPodTerms(affinity, anti_affinity, selectors.join_errors(faults) if faults else "")


def _required(affinity: pods.PodAffinity | None, at: str) -> Terms:
    """Return required terms. InvalidField for a term without a topology key."""
    terms = (affinity.required_during_scheduling_ignored_during_execution if affinity else None) or ()
    for i, term in enumerate(terms):
        if not term.topology_key:
            field = f"{at}.{_REQUIRED}[{i}].topologyKey"
            raise fields.InvalidField(field, term.topology_key, "the key of a node label")
    return terms


def _preferred(affinity: pods.PodAffinity | None) -> Terms:
    weighted = (affinity.preferred_during_scheduling_ignored_during_execution if affinity else None) or ()
    return [
        weighted_pod_affinity_term.pod_affinity_term or pods.PodAffinityTerm()
        for weighted_pod_affinity_term in weighted
    ]


def _read_term(term: pods.PodAffinityTerm, namespace: str, at: str) -> facts.PodAffinityTerm:
    # Only a term without namespaces and namespaceSelector means the pod's own namespace.
    is_own = not term.namespaces and term.namespace_selector is None
    return facts.PodAffinityTerm(
        topology_key=term.topology_key or "",
        selector=kube_selectors.parse_label_selector(term.label_selector, f"{at}.labelSelector"),
        namespaces=(namespace,) if is_own else tuple(sorted(set(term.namespaces or ()))),
        namespace_selector=kube_selectors.parse_label_selector(term.namespace_selector, f"{at}.namespaceSelector"),
    )


def read_spread(
    spec: pods.PodSpec, labels: Mapping[str, str], complaints: Warnings
) -> tuple[tuple[facts.SpreadConstraint, ...], str]:
    """Read hard topology spread constraints; soft ones never reject a node. If one cannot be parsed, return none, and
    kube-scheduler's message.
    """
    constraints = enumerate(spec.topology_spread_constraints or ())
    read = (_read_constraint(c, labels, f"spec.topologySpreadConstraints[{i}]") for i, c in constraints)
    try:
        return tuple(constraint for constraint in read if constraint is not None), ""
    except kube_selectors.InvalidSelector as error:
        complaints.append(error)
        return (), error.message


def _read_constraint(
    constraint: pods.TopologySpreadConstraint, labels: Mapping[str, str], at: str
) -> facts.SpreadConstraint | None:
    when = constraint.when_unsatisfiable
    if fields.read_enum(when, ("DoNotSchedule", "ScheduleAnyway"), f"{at}.whenUnsatisfiable") == "ScheduleAnyway":
        return None
    if not constraint.topology_key:
        raise fields.InvalidField(f"{at}.topologyKey", constraint.topology_key, "the key of a node label")
    selector = kube_selectors.parse_label_selector(constraint.label_selector, f"{at}.labelSelector")
    affinity_policy = constraint.node_affinity_policy or "Honor"
    taints_policy = constraint.node_taints_policy or "Ignore"
    return facts.SpreadConstraint(
        topology_key=constraint.topology_key,
        max_skew=_read_positive(constraint.max_skew, f"{at}.maxSkew"),
        selector=_match_own(selector, constraint.match_label_keys or (), labels),
        min_domains=_read_positive(1 if constraint.min_domains is None else constraint.min_domains, f"{at}.minDomains"),
        honor_affinity=fields.read_enum(affinity_policy, _POLICIES, f"{at}.nodeAffinityPolicy") == "Honor",
        honor_taints=fields.read_enum(taints_policy, _POLICIES, f"{at}.nodeTaintsPolicy") == "Honor",
    )


def _match_own(
    selector: selectors.LabelSelector | None, keys: Iterable[str], labels: Mapping[str, str]
) -> selectors.LabelSelector | None:
    """Return the selector restricted to the pod's own label values of matchLabelKeys."""
    if selector is None:
        return None
    own = (selectors.Requirement(key, selectors.Operator.IN, (labels[key],)) for key in keys if key in labels)
    return selectors.LabelSelector.of((*selector.requirements, *own))


def _read_positive(number: int | None, at: str) -> int:
    if number is None or number < 1:
        raise fields.InvalidField(at, number, "a whole number above zero")
    return number


def read_required_features(spec: pods.PodSpec) -> frozenset[str]:
    """Return the features that a node must declare for this pod (kube-scheduler 1.36's NodeDeclaredFeatures)."""
    features = set()
    containers = (*(spec.containers or ()), *(spec.init_containers or ()))
    rules = (rule for container in containers for rule in container.restart_policy_rules or ())
    if any(rule.action == "RestartAllContainers" for rule in rules):
        features.add("RestartAllContainersOnContainerExits")
    if spec.host_network and spec.host_users is False:
        features.add("UserNamespacesHostNetworkSupport")
    return frozenset(features)
