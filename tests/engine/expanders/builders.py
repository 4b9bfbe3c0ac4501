"""Options for tests, from a few numbers."""

from hypothesis import strategies as st

from windlass.engine.model import facts
from windlass.engine.model.scale_up_status import ExpansionOption, SchedulablePods

GIB = 2**30


def node(name: str = "n", cpu: int = 4, memory_gib: int = 16, labels: dict[str, str] | None = None) -> facts.Node:
    """A template with whole cores and GiB."""
    resources = ((facts.CPU, cpu * 1000), (facts.MEMORY, memory_gib * GIB))
    return facts.Node(name, labels=labels or {}, capacity=resources, allocatable=resources)


def pods(count: int, millicpu: int = 1000, memory_gib: float = 1) -> SchedulablePods:
    requests = ((facts.CPU, millicpu), (facts.MEMORY, int(memory_gib * GIB)))
    return SchedulablePods(facts.Pod("default", f"p{millicpu}", spec=facts.PodSpec(requests=requests)), count)


def option(
    group: str, node_count: int = 1, *helped: SchedulablePods, template: facts.Node | None = None
) -> ExpansionOption:
    return ExpansionOption(group, template or node(group), node_count, helped)


def groups(options: list[ExpansionOption]) -> list[str]:
    return [one.group for one in options]


many_options = st.lists(
    st.builds(
        option,
        st.text("abc", min_size=1, max_size=3),
        st.integers(0, 4),
        st.builds(pods, st.integers(0, 5), st.sampled_from([100, 250, 500]), st.sampled_from([0.5, 1, 2])),
        template=st.builds(node, st.just("n"), st.integers(0, 8), st.integers(0, 32)),
    ),
    max_size=6,
)
"""Options with ties, repeated ids, no pods, no nodes and no capacity among them."""
