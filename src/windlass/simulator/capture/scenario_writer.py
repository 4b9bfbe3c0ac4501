"""Scenario writer: the scenario of a cluster history, as plain values and as the text of a YAML file.

What a scenario cannot have is named in comments at the beginning of the file. The result is checked as any scenario is.
"""

import datetime
import math
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import yaml

from windlass import errors
from windlass.autoscaler.options import flags
from windlass.engine.model import deviations, facts, node_groups
from windlass.engine.model.settings import Settings
from windlass.kube import time_formats
from windlass.selectors import LabelSelector, NodeSelector, Operator
from windlass.simulator.capture import cluster_history, workload_history
from windlass.simulator.capture.cluster_history import MIRROR_OWNER, ClusterHistory, GroupHistory, PodHistory
from windlass.simulator.capture.workload_history import JobWorkload, ReplicatedWorkload
from windlass.simulator.scenario import loader, model

Plain = dict[str, Any]

_MOST_OBSERVED = 400
"""Most durations that are listed; of more, the distribution is given."""

_MOST_SAMPLES = 2000

_SAME_SHARE = 3.0
"""Most percentage points by which a buffer's share of its workload may vary: numbers of pods are rounded up."""

_SHORTEST_SAMPLE_S = 10.0

_DEFAULT_START_S = 2.0

_ONE_MOMENT_S = 3600.0
"""Duration of the scenario of a single observation."""

_MOST_PRIORITY = 10**9
"""Priorities above it are reserved for the system's own classes."""

_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"

_OWN_LABELS = ("kubernetes.io/hostname", facts.ZONE, "kubernetes.io/arch", "kubernetes.io/os")
"""Labels of nodes that the simulated cluster sets itself, or that differ between the nodes of a group."""

_PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler",
                   "DeletionCandidateOfClusterAutoscaler", "node.cluster.x-k8s.io/")  # fmt: skip

_OPTION_NAMES = {
    "scale_down_utilization_threshold": "scaledownutilizationthreshold",
    "scale_down_gpu_utilization_threshold": "scaledowngpuutilizationthreshold",
    "scale_down_unneeded_s": "scaledownunneededtime",
    "scale_down_unready_s": "scaledownunreadytime",
    "max_node_provision_s": "maxnodeprovisiontime",
    "max_node_startup_s": "maxnodestartuptime",
    "ignore_daemonsets_utilization": "ignoredaemonsetsutilization",
    "zero_or_max": "zeroormaxnodescaling",
    "allow_non_atomic_scale_up_to_max": "allownonatomicscaleuptomax",
}
"""Ends of annotations by field of `GroupOptions`."""


@dataclass(frozen=True, slots=True)
class CapturedScenario:
    """A scenario in plain values, and what it lacks."""

    plain: Plain
    left_out: tuple[str, ...]

    def render(self) -> str:
        """The text of the file. InvalidScenario if it would be none: a bug, or a history without groups."""
        text = "".join((*(f"# Not captured: {what}\n" for what in self.left_out), *_render(self.plain)))
        loader.parse_scenario(text, str(self.plain["name"]))
        return text


def write_scenario(history: ClusterHistory, settings: Settings, name: str, story: str = "") -> CapturedScenario:
    """The scenario. InvalidInput without a node group."""
    if not history.groups:
        raise errors.InvalidInput("no node group was observed, expected one or more: there is nothing to simulate")
    return _ScenarioWriter(history, settings).write(name, story)


class _ScenarioWriter:
    def __init__(self, history: ClusterHistory, settings: Settings) -> None:
        self._history, self._settings = history, settings
        self._left_out = set(history.left_out)
        self._names: set[str] = set()
        self._taint_keys: list[str] = []
        self._is_moment = history.end_s <= history.begin_s
        self._duration_s = _ONE_MOMENT_S if self._is_moment else math.ceil(history.end_s - history.begin_s)
        starts = [pod.started_s - pod.bound_s for pod in history.pods
                  if pod.started_s is not None and pod.bound_s is not None and not pod.is_initial]  # fmt: skip
        self._start_s = round(statistics.median(starts), 1) if starts else _DEFAULT_START_S

    def write(self, name: str, story: str) -> CapturedScenario:
        history, duration_s = self._history, self._duration_s
        group_names = self._name_groups()
        groups = [self._write_group(group_names[id_], group) for id_, group in history.groups.items()]
        groups += list(self._write_fixed_groups())
        self._taint_keys = sorted({taint["key"] for group in groups for taint in group.get("taints", ())})
        workloads: list[Plain] = []
        timeline: list[Plain] = []
        workloads += map(self._write_daemon_set, history.daemon_sets.values())
        replicated = workload_history.list_replicated(history)
        workloads += [self._write_replicated(workload, timeline) for workload in replicated]
        buffers = self._write_buffers(list(zip(replicated, workloads[len(history.daemon_sets) :], strict=True)))
        for jobs in workload_history.list_jobs(history, self._start_s):
            workloads.append(self._write_jobs(jobs, timeline))
        timeline += cluster_history.list_failures(history, group_names)
        timeline = [self._round_step(step) for step in sorted(timeline, key=lambda step: float(step["at"]))]
        never = sum(1 for pod in history.pods if pod.gone_s is None and pod.bound_s is None)
        begins = datetime.datetime.fromtimestamp(math.floor(history.begin_s), datetime.UTC)
        plain: Plain = {
            "name": name,
            "story": story,
            "duration": duration_s,
            "begins": begins.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "sample": max(_SHORTEST_SAMPLE_S, round(duration_s / _MOST_SAMPLES)),
            "flags": self._write_flags(),
            "groups": groups,
            "workloads": workloads,
            "buffers": buffers,
            "timeline": timeline,
            "expect": [
                {"measure": "violations", "at_most": 0},
                {"measure": "pods_never_placed", "at_most": never},
            ],
        }
        plain = {field: value for field, value in plain.items() if value or field == "groups"}
        self._accept_unplaceable(plain)
        return CapturedScenario(plain, tuple(sorted(self._left_out)))

    def _accept_unplaceable(self, plain: Plain) -> None:
        """Pods that fit no group were seen, so they are accepted."""
        for path, _ in loader.validate(model.convert(plain)):
            if path[0] == "workloads" and path[2] == "requests":
                plain["workloads"][path[1]]["may_wait"] = True

    def _name(self, desired: str, namespace: str = "") -> str:
        """A name that is not taken yet."""
        candidates = [desired, *([f"{namespace}-{desired}"] if namespace else [])]
        candidates += [f"{candidates[-1]}-{number}" for number in range(2, len(self._names) + 3)]
        name = next(candidate for candidate in candidates if candidate not in self._names)
        self._names.add(name)
        return name

    def _round_step(self, step: Plain) -> Plain:
        rounded = {key: round(value, 1) if isinstance(value, float) else value for key, value in step.items()}
        rounded["at"] = min(rounded["at"], self._duration_s)
        return rounded

    # ── Groups ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _name_groups(self) -> dict[str, str]:
        short = Counter(id_.rpartition("/")[2] for id_ in self._history.groups)
        return {
            id_: self._name(
                id_.rpartition("/")[2] if short[id_.rpartition("/")[2]] == 1 else "-".join(id_.split("/")[1:])
            )
            for id_ in self._history.groups
        }

    def _write_group(self, name: str, group: GroupHistory) -> Plain:
        first, machines = group.first, [machine for machine in group.machines if not machine.is_initial]
        least = max(first.min_size, 0)
        plain: Plain = {"name": name, "min": least, "max": max(first.max_size, least, 1), "initial": first.target_size}
        if group.zone:
            plain["zones"] = [group.zone]
        examples = group.nodes or ([group.last.template] if group.last.template is not None else [])
        if not examples:
            raise errors.InvalidInput(
                f"{first.id}: found neither a node nor a template, expected one: its size is unknown"
            )
        plain |= _write_machine(examples, self._find_mirrored(examples))
        if group.last.price_per_hour:
            plain["price"] = group.last.price_per_hour
        options = _write_options(group.last.options)
        if options:
            plain["options"] = options
        never = [machine for machine in machines if cluster_history.is_stuck(machine)]
        registered = [machine for machine in machines if machine.registered_s is not None]
        in_order = [machine for machine in machines if machine in never or machine in registered]
        boots = [
            math.inf if machine.registered_s is None else machine.registered_s - machine.requested_s
            for machine in in_order
        ]
        readies = [machine.ready_s - machine.registered_s for machine in registered
                   if machine.ready_s is not None and machine.registered_s is not None]  # fmt: skip
        stops = [machine.gone_s - machine.stopping_s for machine in group.machines
                 if machine.gone_s is not None and machine.stopping_s is not None]  # fmt: skip
        for field, delays_s in (("boot", boots), ("ready", readies), ("stop", stops)):
            if delays_s:
                plain[field] = _write_delays(delays_s)
        return plain

    def _write_fixed_groups(self) -> Iterator[Plain]:
        """Nodes of no group, as groups whose size is fixed."""
        alike: dict[tuple[object, ...], list[facts.Node]] = {}
        for node in self._history.other_nodes.values():
            labels = tuple(sorted(_labels_of([node]).items()))
            zone = node.labels.get(facts.ZONE, "")
            alike.setdefault((node.capacity, node.allocatable, _taints_of([node]), labels, zone), []).append(node)
        for nodes in alike.values():
            zone_label = nodes[0].labels.get(facts.ZONE)
            size = {"min": len(nodes), "max": len(nodes), "initial": len(nodes)}
            yield {
                "name": self._name("fixed"),
                **size,
                **({"zones": [zone_label]} if zone_label else {}),
                **_write_machine(nodes, self._find_mirrored(nodes)),
            }

    def _find_mirrored(self, nodes: Sequence[facts.Node]) -> dict[str, int]:
        """What the mirror pods of a node request: no workload creates them."""
        names, by_node = {node.name for node in nodes}, dict[str, Counter[str]]()
        for pod in self._history.pods:
            if pod.node in names and pod.owner is not None and pod.owner.kind == MIRROR_OWNER:
                by_node.setdefault(pod.node, Counter()).update(dict(pod.template.spec.requests))
        return {} if not by_node else dict(max(by_node.values(), key=lambda total: total[facts.CPU]))

    # ── Workloads ────────────────────────────────────────────────────────────────────────────────────────────────

    def _write_daemon_set(self, daemon_set: node_groups.DaemonSet) -> Plain:
        plain: Plain = {"name": self._name(daemon_set.name, daemon_set.namespace), "kind": "DaemonSet"}
        return plain | self._write_pod(daemon_set.namespace, daemon_set.pod.spec, {}, daemon_set.pod.labels)

    def _write_replicated(self, workload: ReplicatedWorkload, timeline: list[Plain]) -> Plain:
        name = self._name(workload.name, workload.namespace)
        plain: Plain = {"name": name}
        if workload.kind != "Deployment":
            plain["kind"] = workload.kind
        plain["replicas"] = workload.first
        example = workload.example
        plain |= self._write_example(workload.namespace, example)
        budget = self._write_budget(workload)
        if budget:
            plain["budget"] = budget
        plain["start"] = self._start_of(workload.pods)
        if workload.rollouts_s:
            plain |= {"surge": workload.surge, "unavailable": workload.unavailable}
        timeline += [{"at": at_s, "do": "rollout", "workload": name} for at_s in workload.rollouts_s]
        timeline += [{"at": step.at_s, "do": "scale", "workload": name, "to": step.replicas} for step in workload.sizes]
        return plain

    def _write_jobs(self, workload: JobWorkload, timeline: list[Plain]) -> Plain:
        name = self._name(workload.name, workload.namespace)
        usual = Counter(len(job.run_s) for job in workload.jobs).most_common(1)[0][0]
        plain: Plain = {"name": name, "kind": "Job", "replicas": usual}
        plain |= self._write_example(workload.namespace, workload.example)
        if workload.is_bare and "safe_to_evict" not in plain:
            plain["safe_to_evict"] = False
        plain["start"] = self._start_s
        plain["run"] = _write_delays([run_s for job in workload.jobs for run_s in job.run_s], at_most=0)
        for job in workload.jobs:
            step: Plain = {"at": job.at_s, "do": "jobs", "workload": name, "count": 1}
            if len(job.run_s) != usual:
                step["pods"] = len(job.run_s)
            step["run"] = _write_delays(job.run_s)
            timeline.append(step)
        return plain

    def _write_buffers(self, replicated: Sequence[tuple[ReplicatedWorkload, Plain]]) -> list[Plain]:
        """CapacityBuffers for pods of a workload: a percentage of it if that is what followed its size."""
        buffers: dict[str, Plain] = {}
        for buffer in self._history.buffers.values():
            pod = buffer.like
            same = ((workload, plain["name"]) for workload, plain in replicated
                    if workload.namespace == pod.namespace and workload.example.template.spec == pod.spec)  # fmt: skip
            match = next(same, None)
            if match is None or match[1] in buffers:
                self._left_out.add("CapacityBuffers for other pods than those of a Deployment or StatefulSet")
                continue
            workload, name = match
            counts = [(at_s - self._history.begin_s, count) for at_s, count in buffer.counts if count]
            shares = [100 * count / size for at_s, count in counts if (size := workload.size_at(at_s))]
            if len(shares) > 1 and max(shares) - min(shares) <= _SAME_SHARE:
                buffers[name] = {"workload": name, "percentage": round(statistics.median(shares))}
            elif counts:
                buffers[name] = {"workload": name, "replicas": max(count for _, count in counts)}
        return list(buffers.values())

    def _start_of(self, pods: Sequence[PodHistory]) -> Any:
        starts = [pod.started_s - pod.bound_s for pod in pods
                  if pod.started_s is not None and pod.bound_s is not None and not pod.is_initial]  # fmt: skip
        return _write_delays(starts, at_most=0) if starts else self._start_s

    def _write_example(self, namespace: str, pod: PodHistory) -> Plain:
        plain = self._write_pod(namespace, pod.template.spec, dict(pod.template.annotations), pod.labels)
        grace_s = pod.template.grace_s
        if grace_s is not None and grace_s != 30.0:
            plain["grace"] = grace_s
        return plain

    def _write_pod(
        self, namespace: str, spec: facts.PodSpec, annotations: Mapping[str, str], labels: Mapping[str, str]
    ) -> Plain:
        plain: Plain = {} if namespace == "default" else {"namespace": namespace}
        plain["requests"] = _write_amounts(spec.requests)
        selector = {**dict(spec.node_selector), **self._read_affinity(spec.node_affinity)}
        if selector:
            plain["node_selector"] = selector
        tolerations = self._write_tolerations(spec)
        if tolerations:
            plain["tolerations"] = tolerations
        if spec.priority:
            plain["priority"] = min(spec.priority, _MOST_PRIORITY)
        plain |= self._write_topology(spec, labels)
        safe = annotations.get(_SAFE_TO_EVICT)
        if safe in ("true", "false"):
            plain["safe_to_evict"] = safe == "true"
        elif self._settings.drain.skip_nodes_with_local_storage and workload_history.has_local_storage(spec):
            plain["safe_to_evict"] = False
        if any(volume.claim for volume in spec.volumes):
            self._left_out.add("volumes")
        if spec.claims:
            self._left_out.add("claims of devices")
        return plain

    def _write_tolerations(self, spec: facts.PodSpec) -> list[Plain]:
        """Tolerations; one of every taint tolerates those that groups have."""
        found: list[Plain] = []
        for toleration in spec.tolerations:
            if not toleration.key:
                found += [{"key": key} for key in self._taint_keys]
            elif not toleration.key.startswith(_PASSING_TAINTS):
                found.append(_write_toleration(toleration))
        return found

    def _write_topology(self, spec: facts.PodSpec, labels: Mapping[str, str]) -> Plain:
        plain: Plain = {}
        spreads: list[Plain] = []
        for constraint in spec.spread:
            over = _TOPOLOGIES.get(constraint.topology_key)
            if over is None or not _selects(constraint.selector, labels):
                self._left_out.add("topology spread constraints over other topologies or other pods")
            else:
                spreads.append({"over": over, "skew": constraint.max_skew})
        if spreads:
            plain["spread"] = spreads
        for term in spec.anti_affinity:
            over = _TOPOLOGIES.get(term.topology_key)
            if over is None or not _selects(term.selector, labels):
                self._left_out.add("anti-affinity over other topologies or to other pods")
            else:
                plain["apart"] = over
        if spec.host_ports:
            plain.setdefault("apart", "node")
        if spec.affinity:
            self._left_out.add("pod affinity")
        return plain

    def _read_affinity(self, affinity: NodeSelector | None) -> dict[str, str]:
        """Required node affinity, where a node selector says the same."""
        if affinity is None:
            return {}
        term = affinity.terms[0] if len(affinity.terms) == 1 else None
        is_simple = term is not None and not term.fields and not term.is_invalid
        if term is None or not is_simple or any(
            expression.operator is not Operator.IN or len(expression.values) != 1 for expression in term.expressions
        ):  # fmt: skip
            self._left_out.add("node affinity that is no list of labels")
            return {}
        return {expression.key: expression.values[0] for expression in term.expressions}

    def _write_budget(self, workload: ReplicatedWorkload) -> Plain:
        labels = workload.example.labels
        budgets_of_workload = [budget for budgets in self._history.budgets.values() for budget in budgets
                 if budget.namespace == workload.namespace and _selects(budget.selector, labels)]  # fmt: skip
        if not budgets_of_workload:
            return {}
        allowed = max(budget.disruptions_allowed for budget in budgets_of_workload)
        largest = max([workload.first, *(step.replicas for step in workload.sizes)])
        if workload.sizes and largest:
            return {"max_unavailable": f"{100 * allowed // largest}%"}
        return {"max_unavailable": allowed}

    # ── Flags ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _write_flags(self) -> Plain:
        """Flags of the settings that differ from the defaults."""
        settings, plain = self._settings, Plain()
        preset = settings.deviations
        if preset == deviations.NO_DEVIATIONS:
            plain["behavior"] = "cluster-autoscaler"
        base = flags.parse_settings({name: str(value) for name, value in plain.items()})
        for flag in flags.DECISION_FLAGS.values():
            value = getattr(getattr(settings, flag.group) if flag.group else settings, flag.field)
            default = getattr(getattr(base, flag.group) if flag.group else base, flag.field)
            if value == default or flag.name == "seed":
                continue
            text = _format_flag(flag.field, value)
            try:
                is_right = text is not None and flag.read([model.format_flag(text)]) == value
            except ValueError:
                is_right = False
            if is_right and text is not None:
                plain[flag.name] = text
            else:
                self._left_out.add(f"the flag --{flag.name}")
        return plain


_TOPOLOGIES = {facts.ZONE: "zone", facts.HOSTNAME: "node"}


def _format_flag(field: str, value: object) -> str | int | float | bool | None:
    match value:
        case bool() | int() | str():
            return value
        case float():
            return time_formats.format_duration(value) if field.endswith("_s") else value
        case tuple() if value and all(isinstance(item, str) for item in value):
            return ",".join(value)
    return None


def _write_options(options: node_groups.GroupOptions) -> dict[str, str]:
    options_by_flag: dict[str, str] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if value is None or value is False:
            continue
        is_time = field.name.endswith("_s")
        options_by_flag[_OPTION_NAMES[field.name]] = (
            time_formats.format_duration(value) if is_time else str(value).lower()
        )
    return options_by_flag


def _write_machine(examples: Sequence[facts.Node], mirrored: Mapping[str, int]) -> Plain:
    """Capacity, reserved resources, labels and taints of alike nodes."""
    example = examples[-1]
    capacity, allocatable = dict(example.capacity or example.allocatable), dict(example.allocatable)
    reserved = {
        name: max(amount - allocatable.get(name, 0), 0) + mirrored.get(name, 0) for name, amount in capacity.items()
    }
    plain: Plain = {"capacity": _write_amounts(tuple(capacity.items()))}
    if any(reserved.values()):
        plain["reserved"] = _write_amounts(tuple((name, amount) for name, amount in reserved.items() if amount))
    labels, taints = _labels_of(examples), _taints_of(examples)
    if labels:
        plain["labels"] = labels
    if taints:
        plain["taints"] = [
            {"key": taint.key, **({"value": taint.value} if taint.value else {}), "effect": taint.effect}
            for taint in taints
        ]
    return plain


def _labels_of(nodes: Sequence[facts.Node]) -> dict[str, str]:
    """Labels that all of the nodes have."""
    common = set(nodes[0].labels.items()).intersection(*(node.labels.items() for node in nodes))
    return {key: value for key, value in sorted(common) if key not in _OWN_LABELS}


def _taints_of(nodes: Sequence[facts.Node]) -> tuple[facts.Taint, ...]:
    common = set(nodes[0].taints).intersection(*(node.taints for node in nodes))
    lasting = [taint for taint in common if not taint.key.startswith(_PASSING_TAINTS)]
    return tuple(sorted(lasting, key=lambda taint: (taint.key, taint.value, taint.effect)))


def _write_amounts(amounts: facts.Resources) -> Plain:
    """Amounts as a person would write them."""
    return {name: _write_amount(name, amount) for name, amount in amounts if amount}


def _write_amount(name: str, amount: int) -> str | int:
    if name == facts.CPU:
        return amount // 1000 if amount % 1000 == 0 else f"{amount}m"
    for power, suffix in ((30, "Gi"), (20, "Mi"), (10, "Ki")):
        if amount >= 2**power and amount % 2**power == 0 and "/" not in name and name != facts.PODS:
            return f"{amount >> power}{suffix}"
    return amount


def _write_toleration(toleration: facts.Toleration) -> Plain:
    written = {"key": toleration.key, "value": toleration.value, "effect": toleration.effect}
    return {name: value for name, value in written.items() if value}


def _selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is not None and selector.matches(labels)


def _write_delays(delays_s: Sequence[float], at_most: int = _MOST_OBSERVED) -> Any:
    """The durations in their order, or their distribution where there are more."""
    known = sorted(max(round(delay_s, 1), 0.0) for delay_s in delays_s if not math.isinf(delay_s))
    if 1 < len(delays_s) <= at_most or not known:
        return [model.NEVER if math.isinf(delay_s) else max(round(delay_s, 1), 0.0) for delay_s in delays_s]
    if known[0] == known[-1] or not statistics.median(known):
        return round(statistics.median(known), 1)
    logs = [math.log(max(delay_s, 0.1)) for delay_s in known]
    return {
        "median": round(statistics.median(known), 1),
        "spread": round(statistics.pstdev(logs), 3),
        "least": known[0],
    }


# ── Text ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _render(plain: Plain) -> Iterator[str]:
    """One line for each group, workload and step."""
    for field, value in plain.items():
        if isinstance(value, list):
            yield f"{field}:\n"
            yield from (f"  - {_flow(item)}" for item in value)
        else:
            yield f"{field}: {_flow(value)}"


def _flow(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=math.inf, allow_unicode=True)
    return text.removesuffix("...\n")
