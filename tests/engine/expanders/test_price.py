"""Price: the formula, what has no price, and prices by table."""

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.expanders import builders
from windlass.engine.expanders import price
from windlass.engine.expanders.price import INSTANCE_TYPE, INSTANCE_TYPE_BETA, PriceTable
from windlass.engine.model import facts
from windlass.engine.model.scale_up_status import ExpansionOption
from windlass.product import PRICE_ANNOTATION

GPU_LABEL = "cluster-api/accelerator"


@dataclass(frozen=True)
class Fixed:
    """Prices by name of the template; all pods cost the same."""

    nodes: dict[str, float | None]
    pod: float | None = 0.1
    small_pod: float | None = 0.1

    def node_price(self, node: facts.Node) -> float | None:
        return self.nodes.get(node.name)

    def pod_price(self, pod: facts.Pod) -> float | None:
        return self.small_pod if pod is price.SMALL_POD else self.pod


def keep(options: list[ExpansionOption], pricing: price.PricingModel, cluster_nodes: int = 10) -> list[str]:
    return builders.groups(price.find_best_options(options, pricing, cluster_nodes, GPU_LABEL))


def score(option: ExpansionOption, pricing: price.PricingModel, cluster_nodes: int = 10) -> price.PriceScore:
    price_score = price.score_option(option, pricing, cluster_nodes, GPU_LABEL)
    assert price_score is not None
    return price_score


def test_the_cheaper_of_two_equal_machines_wins() -> None:
    options = [builders.option("dear", 2, builders.pods(5)), builders.option("cheap", 2, builders.pods(5))]
    assert keep(options, Fixed({"dear": 0.4, "cheap": 0.2})) == ["cheap"]


def test_equal_scores_are_all_kept() -> None:
    options = [builders.option("a", 2, builders.pods(5)), builders.option("b", 2, builders.pods(5))]
    assert keep(options, Fixed({"a": 0.4, "b": 0.4})) == ["a", "b"]


def test_the_arithmetic_is_the_one_in_the_docstring() -> None:
    option = builders.option("g", 16, builders.pods(9), template=builders.node("g", cpu=8))
    price_score = score(option, Fixed({"g": 0.5}), cluster_nodes=20)
    assert price_score.ratio == pytest.approx((0.5 * 16 + 0.1) / (9 * 0.1 + 0.1))
    assert price_score.unfitness == 2.0
    assert price_score.suppressed == pytest.approx(1 * (1 - math.tanh(1)) + 1)
    assert price_score.score == pytest.approx(price_score.suppressed * price_score.ratio)


@pytest.mark.parametrize(
    ("nodes", "millicpu"),
    [(0, 1000), (2, 1000), (3, 2000), (6, 2000), (20, 4000), (60, 8000), (200, 16000), (201, 32000)],
)
def test_larger_clusters_prefer_larger_machines(nodes: int, millicpu: int) -> None:
    assert price.prefer_millicpu(nodes) == millicpu


def test_a_machine_too_large_is_as_unfit_as_one_too_small() -> None:
    pricing = Fixed({"half": 1.0, "double": 1.0})
    half = score(builders.option("half", template=builders.node("half", cpu=2)), pricing)
    double = score(builders.option("double", template=builders.node("double", cpu=8)), pricing)
    assert half.unfitness == double.unfitness == 2.0


def test_a_gpu_group_is_left_to_pods_that_need_it() -> None:
    gpu = builders.option("gpu", 1, builders.pods(1), template=builders.node("gpu", labels={GPU_LABEL: "x"}))
    plain = builders.option("plain", 1, builders.pods(1))
    pricing = Fixed({"gpu": 0.1, "plain": 9.0})
    assert keep([gpu, plain], pricing) == ["plain"]
    assert score(gpu, pricing).suppressed == price.GPU_UNFITNESS


def test_a_gpu_shows_without_label_by_its_resource() -> None:
    template = replace(builders.node("gpu"), allocatable=(("nvidia.com/gpu", 1),))
    assert score(builders.option("gpu", template=template), Fixed({"gpu": 0.1})).suppressed == price.GPU_UNFITNESS


def test_a_group_that_does_not_exist_yet_counts_twice() -> None:
    there = builders.option("g", 1, builders.pods(1))
    pricing = Fixed({"g": 0.3})
    assert score(replace(there, exists=False), pricing).score == 2 * score(there, pricing).score


def test_an_option_with_an_unknown_price_is_left_out() -> None:
    options = [builders.option("known", 1, builders.pods(1)), builders.option("unknown", 1, builders.pods(1))]
    assert keep(options, Fixed({"known": 99.0})) == ["known"]
    assert keep(options, Fixed({"known": 1.0}, pod=None)) == []


def test_without_a_price_for_the_small_pod_the_ratio_is_not_stabilised() -> None:
    option = builders.option("g", 2, builders.pods(4))
    assert score(option, Fixed({"g": 1.0}, small_pod=None)).ratio == pytest.approx(2.0 / 0.4)


def test_nodes_for_worthless_pods_are_paid_in_vain_but_still_compared() -> None:
    pricing = Fixed({"g": 1.0}, pod=0.0, small_pod=0.0)
    assert score(builders.option("g", 1, builders.pods(1)), pricing).score == math.inf
    assert keep([builders.option("g", 1, builders.pods(1))], pricing) == ["g"]


def test_a_template_without_cpu_is_infinitely_unfit() -> None:
    option = builders.option("g", 500, template=builders.node("g", cpu=0))
    assert score(option, Fixed({"g": 1.0})).score == math.inf


@given(st.floats(0.01, 100), st.integers(1, 50), st.integers(0, 30))
def test_a_higher_price_never_makes_an_option_better(node_price: float, node_count: int, pod_count: int) -> None:
    option = builders.option("g", node_count, builders.pods(pod_count))
    dearer = score(option, Fixed({"g": node_price * 2}))
    assert score(option, Fixed({"g": node_price})).score <= dearer.score


def test_the_score_explains_itself() -> None:
    text = str(score(builders.option("g", 2, builders.pods(4)), Fixed({"g": 1.0})))
    assert text.startswith("all_nodes_price=2.000000 pods_price=0.400000 stabilized_ratio=4.200000 ")


# ── Prices by table ──────────────────────────────────────────────────────────────────────────────────────────────


def test_a_node_costs_what_the_table_says_of_its_instance_type() -> None:
    table = PriceTable({"m5.large": 0.096})
    assert table.node_price(builders.node(labels={INSTANCE_TYPE: "m5.large"})) == 0.096
    assert table.node_price(builders.node(labels={INSTANCE_TYPE_BETA: "m5.large"})) == 0.096
    assert table.node_price(builders.node(labels={INSTANCE_TYPE: "unknown"})) is None
    assert table.node_price(builders.node()) is None


def test_the_annotation_beats_the_table() -> None:
    table = PriceTable({"m5.large": 0.096})
    labelled = builders.node(labels={INSTANCE_TYPE: "m5.large"})
    assert table.node_price(replace(labelled, annotations={PRICE_ANNOTATION: "0.05"})) == 0.05


@pytest.mark.parametrize("text", ["", "cheap", "-1", "nan", "inf", "1,5"])
def test_an_annotation_that_is_no_price_makes_the_price_unknown(text: str) -> None:
    assert PriceTable().node_price(replace(builders.node(), annotations={PRICE_ANNOTATION: text})) is None


def test_a_pod_is_worth_its_cores_memory_and_gpus() -> None:
    table = PriceTable(rates={"cpu": 1.0, "memory": 10.0, "nvidia.com/gpu": 100.0})
    requests = ((facts.CPU, 1500), ("example.com/other", 7), (facts.MEMORY, builders.GIB // 2), ("nvidia.com/gpu", 2))
    assert table.pod_price(facts.Pod("d", "p", spec=facts.PodSpec(requests=requests))) == pytest.approx(206.5)
