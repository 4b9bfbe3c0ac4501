"""Expanders: which options each strategy keeps, and what a chain of them chooses."""

from dataclasses import dataclass

from tests.conformance import objects
from tests.conformance.outcome import Json, by_section
from windlass import quantity
from windlass.autoscaler import priority_expander_config
from windlass.engine.expanders import chain, least_nodes, least_waste, most_pods, price, priority
from windlass.engine.model import facts
from windlass.engine.model.scale_up_status import ExpansionOption, SchedulablePods
from windlass.errors import InvalidObject

DIGITS = 6
STRATEGIES = {
    "least-nodes": least_nodes.find_best_options,
    "least-waste": least_waste.find_best_options,
    "most-pods": most_pods.find_best_options,
}


def _chain(case: Json, constants: Json) -> object:
    filters = [_by_letter(letter) for letter in case["filters"]]
    return chain.run_chain(case["options"], filters, _by_letter(case["fallback"])).winner


def _by_letter(letter: str) -> chain.ExpanderFilter[str]:
    return chain.ExpanderFilter(letter, lambda options: [option for option in options if letter in option])


def _generated(case: Json, constants: Json) -> object:
    options = [
        ExpansionOption(
            group["id"],
            objects.node(group["node"]),
            group["count"],
            tuple(SchedulablePods(objects.pod(pod, pending=True)) for pod in group["pods"]),
        )
        for group in case["groups"]
    ]
    return {name: sorted(option.group for option in STRATEGIES[name](options)) for name in case["expect"]}


def _least_nodes(case: Json, constants: Json) -> object:
    counts = zip(case["labels"], case["node_counts"], strict=True)
    options = [ExpansionOption(label, facts.Node(label), count) for label, count in counts]
    return [option.group for option in least_nodes.find_best_options(options)]


def _priority(case: Json, constants: Json) -> object:
    options = [ExpansionOption(group, facts.Node(group), 1) for group in case["ids"]]
    data = {"priorities": case["priorities"]} if "priorities" in case else {}
    try:
        rules = priority_expander_config.read_config_map("kube-system", data)
    except InvalidObject:
        rules = ()
    return {"kept": sorted(option.group for option in priority.find_best_options(options, rules))}


@dataclass(frozen=True, slots=True)
class _Recorded:
    """The prices of a case, by name of node and pod."""

    nodes: dict[str, float | None]
    pods: dict[str, float | None]

    def node_price(self, node: facts.Node) -> float | None:
        return self.nodes[node.name]

    def pod_price(self, pod: facts.Pod) -> float | None:
        return self.pods[pod.name]


def _price(case: Json, constants: Json) -> object:
    pods: dict[str, float | None] = {price.SMALL_POD.name: case["stabilization_pod_price"]}
    for option in case["options"]:
        pods |= {f"{option['id']}-{number}": value for number, value in enumerate(option["pod_prices"])}
    pricing = _Recorded({option["id"]: option["node_price"] for option in case["options"]}, pods)
    options = [_make_option(option) for option in case["options"]]
    surroundings = (pricing, case["cluster_nodes"], constants["gpu_label"])
    scores = {option.group: price.score_option(option, *surroundings) for option in options}
    return {
        "best": sorted(option.group for option in price.find_best_options(options, *surroundings)),
        "scores": {group: round(scored.score, DIGITS) for group, scored in scores.items() if scored is not None},
    }


def _make_option(option: Json) -> ExpansionOption:
    capacity = (
        (facts.CPU, quantity.parse_quantity(option["cpu"]).milli_value()),
        (facts.MEMORY, quantity.parse_quantity(option["memory"]).value()),
    )
    node = facts.Node(option["id"], labels=option.get("labels", {}), capacity=capacity, allocatable=capacity)
    pods = tuple(SchedulablePods(facts.Pod("default", f"{option['id']}-{n}")) for n in range(len(option["pod_prices"])))
    return ExpansionOption(option["id"], node, option["node_count"], pods, exists=option["exists"])


run = by_section(
    {
        "chain": _chain,
        "generated": _generated,
        "least_nodes": _least_nodes,
        "priority": _priority,
        "price": _price,
    }
)
