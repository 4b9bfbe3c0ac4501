"""GPUs: those that show, and those that are only promised."""

from windlass.engine.model import facts, well_known

LABEL = well_known.CLUSTER_API_GPU_LABEL


def node(allocatable: facts.Resources = (), capacity: facts.Resources = (), **labels: str) -> facts.Node:
    named = {LABEL if key == "gpu" else key: value for key, value in labels.items()}
    return facts.Node("n", labels=named, allocatable=allocatable, capacity=capacity)


def test_the_first_known_resource_that_is_there_counts() -> None:
    assert well_known.count_ready_gpus(node((("amd.com/gpu", 3), ("nvidia.com/gpu", 2)))) == 2
    assert well_known.count_ready_gpus(node((("amd.com/gpu", 3), ("nvidia.com/gpu", 0)))) == 3
    assert well_known.count_ready_gpus(node((("example.com/gpu", 3),))) == 0


def test_a_label_promises_gpus_before_they_show() -> None:
    assert well_known.has_gpu(node(gpu="tesla"), LABEL)
    assert well_known.has_gpu(node((("nvidia.com/gpu", 1),)), LABEL)
    assert not well_known.has_gpu(node((("nvidia.com/gpu", 0),), other="x"), LABEL)


def test_how_many_are_promised_is_known_from_the_node_then_from_its_template() -> None:
    template = node(capacity=(("nvidia.com/gpu", 4),))
    assert well_known.find_expected_gpus(node((("nvidia.com/gpu", 2),), gpu="tesla"), LABEL, template) == ("tesla", 2)
    assert well_known.find_expected_gpus(node(gpu="tesla"), LABEL, template) == ("tesla", 4)
    assert well_known.find_expected_gpus(node(gpu="tesla"), LABEL, None) is None
    assert well_known.find_expected_gpus(node((("nvidia.com/gpu", 2),)), LABEL, template) is None
    assert well_known.find_expected_gpus(node((("nvidia.com/gpu", 2),), gpu=""), LABEL, template) is None
