"""GPUs: which nodes have them, or should.

A node's GPU driver may come up long after the node. The provider's GPU label says that a node is meant to have GPUs,
and of which type; how many it has shows in its allocatable resources once the driver runs.
"""

from windlass.engine import facts

RESOURCES = ("nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx")
"""Extended resources that are GPUs; the first of them that a node has is the one that counts."""

CLUSTER_API_LABEL = "cluster-api/accelerator"
"""The GPU label of Cluster API's nodes; its value is the type of the GPU, in the user's own words."""


def count_ready(node: facts.Node) -> int:
    """How many GPUs of the node can be allocated now."""
    return _first(node.allocatable)


def has_gpu(node: facts.Node, label: str) -> bool:
    """Does the node have GPUs, ready or not?"""
    return label in node.labels or count_ready(node) != 0


def expect(node: facts.Node, label: str, template: facts.Node | None) -> tuple[str, int] | None:
    """Type and number of the GPUs that the node has or will have; None if it has none, or nobody knows how many.

    While the driver is not up yet, the template of the node's group tells the number.
    """
    gpu_type = node.labels.get(label)
    if not gpu_type:
        return None
    count = count_ready(node)
    if count == 0 and template is not None:
        count = _first(template.capacity)
    return (gpu_type, count) if count > 0 else None


def is_count_unknown(node: facts.Node, label: str, template: facts.Node | None) -> bool:
    """Does the label promise GPUs of which neither the node nor a template of its group tells the number?"""
    return label in node.labels and template is None and count_ready(node) == 0


def _first(resources: facts.Resources) -> int:
    amounts = dict(resources)
    return next((amounts[name] for name in RESOURCES if amounts.get(name, 0) != 0), 0)
