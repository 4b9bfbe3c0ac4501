"""Small facts for tests of the engine. What a test does not name is left at what changes nothing."""

from collections.abc import Mapping

from windlass.engine.model import facts, settings
from windlass.engine.model.scheduling_reasons import Refusal
from windlass.engine.predicates import registry
from windlass.engine.snapshot.cluster_snapshot import Snapshot
from windlass.selectors import EVERYTHING, LabelSelector, Operator, Requirement

GIB = 1 << 30


def node(
    name: str,
    *,
    cpu: int = 4000,
    memory: int = 8 * GIB,
    pods: int = 110,
    zone: str = "",
    labels: Mapping[str, str] | None = None,
    taints: tuple[facts.Taint, ...] = (),
    unschedulable: bool = False,
    features: frozenset[str] = frozenset(),
    more: Mapping[str, int] | None = None,
) -> facts.Node:
    """A node with a hostname; cpu in millicores, further resources by name."""
    amounts = tuple(sorted({"cpu": cpu, "memory": memory, "pods": pods, **(more or {})}.items()))
    known = {facts.HOSTNAME: name, **({facts.ZONE: zone} if zone else {}), **(labels or {})}
    return facts.Node(
        name, labels=known, taints=taints, unschedulable=unschedulable, allocatable=amounts, capacity=amounts,
        declared_features=features,
    )  # fmt: skip


def pod(
    name: str,
    *,
    on: str = "",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    phase: str = "",
    deleted_s: float | None = None,
    uid: str = "",
    owner: facts.Owner | None = None,
    spec: facts.PodSpec | None = None,
    cpu: int = 0,
    memory: int = 0,
    more: Mapping[str, int] | None = None,
) -> facts.Pod:
    """A pod bound to `on`, or waiting, that asks for resources; for what a whole spec asks, if one is given."""
    wanted = {"cpu": cpu, "memory": memory, **(more or {})}
    return facts.Pod(
        namespace, name, uid=uid or f"uid-{namespace}-{name}", labels=labels or {}, owner=owner,
        spec=spec or facts.PodSpec(requests=tuple(sorted(wanted.items()))), node_name=on,
        phase=phase or ("Running" if on else "Pending"), deleted_s=deleted_s,
    )  # fmt: skip


def selector(**labels: str) -> LabelSelector:
    """Pods with these labels; without any, all pods."""
    wanted = [Requirement(key, Operator.IN, (value,)) for key, value in labels.items()]
    return LabelSelector.of(wanted) if wanted else EVERYTHING


def spread(
    key: str, skew: int = 1, selects: LabelSelector | None = EVERYTHING, domains: int = 1
) -> facts.SpreadConstraint:
    return facts.SpreadConstraint(key, skew, selects, domains)


def term(key: str, *namespaces: str, **labels: str) -> facts.PodAffinityTerm:
    """A term about pods with these labels, in `default` unless namespaces are named."""
    return facts.PodAffinityTerm(key, selector(**labels), namespaces or ("default",))


def evaluate(
    snapshot: Snapshot, pod: facts.Pod, profile: settings.FilterConfig = settings.DEFAULT_FILTER_CONFIG
) -> dict[str, Refusal | None]:
    """What the filters say of a waiting pod, by node name."""
    diagnosis = registry.diagnose(snapshot, snapshot.shape_of(pod), profile)
    return {snapshot.nodes.names[row]: diagnosis[row] for row in diagnosis.rows.tolist()}


def feasible(
    snapshot: Snapshot, pod: facts.Pod, profile: settings.FilterConfig = settings.DEFAULT_FILTER_CONFIG
) -> set[str]:
    """Names of the nodes on which a waiting pod may run, asked in both ways: with and without the reasons."""
    names = {name for name, refusal in evaluate(snapshot, pod, profile).items() if refusal is None}
    mask = registry.find_feasible(snapshot, snapshot.shape_of(pod), profile)
    assert {snapshot.nodes.names[row] for row in mask.nonzero()[0].tolist()} == names
    return names
