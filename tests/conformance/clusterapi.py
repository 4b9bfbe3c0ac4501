"""The Cluster API provider: what it reads from objects, and which changes of size it refuses.

Sections that need a server play on the embedded one, with groups and Machines as the case describes them.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.conformance.outcome import Json, by_section
from tests.providers.clusterapi.management_cluster import MAX, MIN, Bed, play
from tests.providers.clusterapi.management_cluster import node as make_node
from windlass import errors
from windlass.engine.model import facts, plan
from windlass.kube import fields
from windlass.kube.models import clusterapi, core, meta
from windlass.providers import base
from windlass.providers.clusterapi import auto_discovery, group_annotations, machines, scale_from_zero
from windlass.quantity import Quantity

KEYS = group_annotations.AnnotationKeys()
GROUP = "MachineDeployment/default/g"


# ── What objects say ─────────────────────────────────────────────────────────────────────────────────────────────


def _read_amount(read: Callable[[Json], Quantity]) -> Callable[[Json, Json], Json]:
    def decide(case: Json, constants: Json) -> Json:
        try:
            amount = read(case["annotations"])
        except fields.InvalidField:
            return {"error": True, "quantity": "0"}
        return {"error": False, "quantity": str(Quantity(amount.nano)) if amount.nano % 10**9 else str(amount.value())}

    return decide


def _can_scale_from_zero(case: Json, constants: Json) -> bool:
    status = clusterapi.InfrastructureTemplateStatus(capacity=case["template_capacity"])
    quantities = scale_from_zero.find_capacity(case["annotations"], clusterapi.InfrastructureTemplate(status=status))
    return scale_from_zero.is_sufficient(quantities)


def _cluster_name(case: Json, constants: Json) -> str:
    spec = clusterapi.MachineGroupSpec(cluster_name=case["resource"]["spec"].get("clusterName"))
    return auto_discovery.find_cluster_name(spec, case["resource"]["metadata"].get("labels", {}), KEYS.cluster_name)


def _csi_annotation(case: Json, constants: Json) -> list[Json]:
    found = scale_from_zero.read_csi_drivers({group_annotations.CSI_DRIVER: case["value"]})
    return [{"name": name, "limit": limit} for name, limit in found]


def _default_arch(case: Json, constants: Json) -> str:
    return auto_discovery.read_architecture(case["env"])


def _system_info(case: Json, constants: Json) -> Json:
    told = case["node_info"]
    info = clusterapi.NodeInfo(told.get("architecture"), told.get("operatingSystem"))
    status = clusterapi.InfrastructureTemplateStatus(node_info=info)
    architecture, system = scale_from_zero.read_system(clusterapi.InfrastructureTemplate(status=status))
    return {"arch": architecture, "os": system}


def _group_options(case: Json, constants: Json) -> Json:
    annotations = {KEYS.options + key: value for key, value in case["option_annotations"].items()}
    group_options, _ = group_annotations.read_group_options(annotations, KEYS)
    own = {name: getattr(group_options, name) for name in constants["defaults"]}
    return {name: default if own[name] is None else own[name] for name, default in constants["defaults"].items()}


def _scaling_bounds(case: Json, constants: Json) -> Json:
    try:
        size_bounds = group_annotations.read_size_bounds(case["annotations"], KEYS)
    except fields.InvalidField:
        return {"error": True}
    return {"min": size_bounds.min, "max": size_bounds.max}


def _template_node(case: Json, constants: Json) -> Json:
    taints = [core.Taint(**taint) for taint in case["spec_taints"]]
    labels = case["existing_node_labels"]
    source = scale_from_zero.TemplateSource(
        name="group",
        annotations=case["annotations"],
        machine=clusterapi.MachineTemplate(
            meta.ObjectMeta(labels=case["managed_labels"]), clusterapi.MachineSpec(taints=taints)
        ),
        example=None if labels is None else facts.Node("n", labels=labels),
    )
    made = scale_from_zero.make_node_template(source, auto_discovery.DEFAULT_ARCHITECTURE)
    if made is None:
        return {"error": True}
    labels = dict(made.node.labels)
    hostname = labels.pop(facts.HOSTNAME)
    found: Json = {
        "capacity": {name: _whole(name, amount) for name, amount in made.node.capacity},
        "error": False,
        "hostname_label": "unique per template" if hostname == made.node.name else hostname,
        "labels": labels,
        "taints": [{"effect": one.effect, "key": one.key, "value": one.value} for one in made.node.taints],
    }
    if made.node.csi_node is not None:
        found["csi_drivers"] = dict(made.node.csi_node.drivers)
    if made.gpus:
        gpus = made.gpus
        found["resource_slice"] = {"device_type": gpus.type, "devices": gpus.count, "driver": gpus.driver}
    return found


def _whole(name: str, amount: int) -> float:
    return amount / 1000 if name == facts.CPU else amount


# ── Discovery ────────────────────────────────────────────────────────────────────────────────────────────────────


def _to_text(spec: auto_discovery.DiscoverySpec) -> Json:
    labels = [{"key": key, "op": "=", "values": [value]} for key, value in spec.labels]
    return {"cluster_name": spec.cluster_name, "labels": labels, "namespace": spec.namespace}


def _discovery_spec(case: Json, constants: Json) -> Json:
    try:
        return {"error": False, **_to_text(auto_discovery.parse_discovery_spec(case["spec"]))}
    except errors.InvalidInput:
        return {"error": True}


def _discovery_specs(case: Json, constants: Json) -> Json:
    try:
        config = auto_discovery.read_config(case["specs"])
    except errors.InvalidInput:
        return {"error": True, "specs": []}
    return {"error": False, "specs": [_to_text(spec) for spec in config.specs]}


def _discovery_match(case: Json, constants: Json) -> bool:
    asked, resource = case["spec"], case["resource"]
    labels = tuple((item["key"], item["values"][0]) for item in asked["labels"])
    spec = auto_discovery.DiscoverySpec(asked["namespace"], asked["cluster_name"], labels)
    return spec.matches(resource["namespace"], resource["cluster_name"], case["labels_added"])


# ── Provider ids ─────────────────────────────────────────────────────────────────────────────────────────────────

_KINDS = {
    "failed": machines.ProviderIdKind.FAILED,
    "deleting": machines.ProviderIdKind.DELETING,
    "pending": machines.ProviderIdKind.PENDING,
}


def _is_synthetic(case: Json, constants: Json) -> bool:
    if case["kind"] == "valid":
        return not machines.is_synthetic_provider_id(case["id"])
    return str(case["id"]).startswith(_KINDS[case["kind"]])


def _synthetic_id(case: Json, constants: Json) -> str:
    return machines.make_provider_id(_KINDS[case["kind"]], case["namespace"], case["machine"])


def _machine_key(case: Json, constants: Json) -> str:
    return machines.machine_key_of(case["id"])


def _provider_id(case: Json, constants: Json) -> str:
    return machines.normalize_provider_id(case["id"])


# ── On a server ──────────────────────────────────────────────────────────────────────────────────────────────────


def _ask(arrange: Callable[[Bed], object], ask: Callable[[Bed], Awaitable[Any]]) -> Any:
    """What a question comes to, once the provider has read what was arranged."""
    answers: list[Any] = []

    async def scenario(bed: Bed) -> None:
        answers.append(await ask(bed))

    play(scenario, arrange)
    return answers[0]


async def _is_refused(change: Awaitable[object]) -> bool:
    try:
        await change
    except base.ProviderError:
        return True
    return False


def _increase_errors(case: Json, constants: Json) -> Json:
    def arrange(bed: Bed) -> None:
        bed.group("g", case["initial"], (1, 10))
        bed.members("g", case["initial"])

    async def ask(bed: Bed) -> Json:
        size = case["initial"]
        order = plan.Resize(GROUP, size, size + case["delta"], 10)
        refused = await _is_refused(bed.provider.resize(order))
        # An order to grow to less than there is comes to nothing, which here is as good as refused.
        return {"error": refused or (case["delta"] <= 0 and await bed.replicas(GROUP) == size)}

    return dict(_ask(arrange, ask))


def _decrease_errors(case: Json, constants: Json) -> Json:
    def arrange(bed: Bed) -> None:
        bed.group("g", case["initial"], (1, 10))
        bed.members("g", case["initial"])

    async def ask(bed: Bed) -> Json:
        if case["delta"] >= 0:
            return {"error": True}  # cannot be ordered: an order says by how much less
        order = plan.ReduceTarget(GROUP, -case["delta"], "", case["initial"])
        return {"error": await _is_refused(bed.provider.reduce_target(order))}

    return dict(_ask(arrange, ask))


def _decrease_target(case: Json, constants: Json) -> Json:
    states = [name for name in ("deleting", "failed", "pending") if case["one_machine_is"].get(name)]

    def arrange(bed: Bed) -> None:
        bed.group("g", case["machines"] + case["replicas_raised_by"], (1, 10))
        for i in range(case["machines"]):
            state = states[i] if i < len(states) else ""
            with_id = case["one_machine_is"].get(f"{state}_with_provider_id", False)
            _arrange_machine(bed, f"g-{i}", state, with_id if state else not case["machines_lack_provider_ids"])

    async def ask(bed: Bed) -> Json:
        if "deleting" in states:
            await bed.begin_deleting("g-0")
        order = plan.ReduceTarget(GROUP, -case["delta"], "", case["machines"] + case["replicas_raised_by"])
        refused = await _is_refused(bed.provider.reduce_target(order))
        return {"error": refused, "replicas": await bed.replicas(GROUP)}

    return dict(_ask(arrange, ask))


def _arrange_machine(bed: Bed, name: str, state: str, provider_id: bool = True) -> None:
    told: Json = {"phase": "Failed", "failureMessage": "broken"} if state.startswith("failed") else {}
    has_node = state in ("", "deleting", "failed_with_node")
    bed.machine(name, "g-1", node=has_node, provider_id=provider_id, finalize=state == "deleting", **told)


def _instances(case: Json, constants: Json) -> Json:
    states = case["one_machine_is"] or [""]

    def arrange(bed: Bed) -> None:
        bed.group("g", case["machines"], (1, 10))
        for i in range(case["machines"]):
            _arrange_machine(bed, f"g-{i}", states[0] if i == 0 else "")

    async def ask(bed: Bed) -> Json:
        if states[0] == "deleting":
            await bed.begin_deleting("g-0")
        groups = await bed.observe([make_node(f"g-{i}") for i in range(case["machines"])])
        return {"count": len({instance.provider_id for instance in groups[GROUP].instances})}

    return dict(_ask(arrange, ask))


def _pool_delete(case: Json, constants: Json) -> Json:
    pool = "MachinePool/default/p"
    nodes = [f"p-{i}" for i in range(case["nodes"])]

    def arrange(bed: Bed) -> None:
        listed = [] if case["empty_provider_id_list"] else [f"fake:///{name}" for name in nodes]
        bed.group("p", 3, (1, 10), kind="MachinePool", providerIDList=listed)

    async def ask(bed: Bed) -> Json:
        doomed = make_node("unknown" if case["unknown_node"] or not nodes else nodes[0])
        return {"error": await _is_refused(bed.provider.delete_nodes(pool, [doomed]))}

    return dict(_ask(arrange, ask))


def _pool_provider_ids(case: Json, constants: Json) -> bool:
    def arrange(bed: Bed) -> None:
        for i, provider_id in enumerate(case["pools"]):
            bed.group(f"p{i}", 1, (0, 10), kind="MachinePool", providerIDList=[provider_id])

    async def ask(bed: Bed) -> bool:
        groups = await bed.observe([make_node("n", case["node"])])
        return any(instance.provider_id == case["node"] for group in groups.values() for instance in group.instances)

    return bool(_ask(arrange, ask))


def _node_group_constructor(case: Json, constants: Json) -> Json:
    """Recorded is what the peer's own test asks for, and it asks for less than it seems to.

    Where an error is expected it looks at nothing else, and where no group is expected it takes a group as well.
    """
    told = case["annotations"]

    def arrange(bed: Bed) -> None:
        bed.group("g", case["replicas"], None, annotations=told)
        bed.members("g", case["nodes"])

    async def ask(bed: Bed) -> Json:
        await bed.settle()
        observed = bed.provider.observe([])
        bounded = [
            invalid
            for invalid in observed.set_aside
            if invalid.field in (group_annotations.annotation_path(MIN), group_annotations.annotation_path(MAX))
        ]
        found: Json = {"error": bool(bounded), "group": bool(observed.groups)}
        if bounded or not case["expect"]["group"]:
            found["group"] = case["expect"]["group"]
        elif observed.groups:
            found |= {"min": observed.groups[0].min_size, "max": observed.groups[0].max_size}
        return found

    return dict(_ask(arrange, ask))


run = by_section(
    {
        "can_scale_from_zero": _can_scale_from_zero,
        "capacity_cpu": _read_amount(
            lambda told: scale_from_zero.read_quantity_annotation(told, group_annotations.CPU)
        ),
        "capacity_memory": _read_amount(
            lambda told: scale_from_zero.read_quantity_annotation(told, group_annotations.MEMORY)
        ),
        "capacity_gpu_count": _read_amount(
            lambda told: scale_from_zero.read_count_annotation(told, group_annotations.GPU_COUNT)
        ),
        "capacity_max_pods": _read_amount(
            lambda told: scale_from_zero.read_count_annotation(told, group_annotations.MAX_PODS)
        ),
        "cluster_name": _cluster_name,
        "csi_annotation": _csi_annotation,
        "decrease_errors": _decrease_errors,
        "decrease_target": _decrease_target,
        "default_arch": _default_arch,
        "discovery_match": _discovery_match,
        "discovery_spec": _discovery_spec,
        "discovery_specs": _discovery_specs,
        "group_options": _group_options,
        "increase_errors": _increase_errors,
        "instances": _instances,
        "is_synthetic": _is_synthetic,
        "machine_key": _machine_key,
        "node_group_constructor": _node_group_constructor,
        "pool_delete": _pool_delete,
        "pool_provider_ids": _pool_provider_ids,
        "provider_id": _provider_id,
        "scaling_bounds": _scaling_bounds,
        "synthetic_id": _synthetic_id,
        "system_info": _system_info,
        "template_node": _template_node,
    }
)
