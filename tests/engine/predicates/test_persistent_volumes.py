"""What a volume's topology becomes where a CSI driver took over from an in-tree plugin."""

import pytest

from tests.engine.predicates.volume_builders import bound, cluster, disk, node, pod, refused, uses, where
from windlass.engine.model import facts
from windlass.engine.predicates import persistent_volumes, volume_binding
from windlass.selectors import NodeSelector, NodeSelectorTerm, Operator, Requirement

ZONE_KEY = "driver.example.com/zone"


def one_term(*requirements: Requirement) -> NodeSelector:
    return NodeSelector((NodeSelectorTerm(requirements),))


def zone_in(*zones: str) -> Requirement:
    return Requirement(ZONE_KEY, Operator.IN, zones)


@pytest.mark.parametrize("labels", [{}, {facts.ZONE: ""}, {facts.ZONE: "__"}, {"disk": "ssd"}])
def test_a_volume_that_names_no_zone_is_bound_to_none(labels: dict[str, str]) -> None:
    assert persistent_volumes.translate_affinity(disk("v", labels=labels), ZONE_KEY) is None


def test_of_two_zone_labels_the_newer_speaks() -> None:
    both = disk("v", labels={facts.ZONE: "new", facts.ZONE_BETA: "old"})
    assert persistent_volumes.translate_affinity(both, ZONE_KEY) == one_term(zone_in("new"))


def test_zones_of_its_labels_bind_a_volume_beside_all_that_its_affinity_says() -> None:
    volume = disk("v", labels={facts.ZONE: "a"}, node_affinity=where(facts.HOSTNAME, "n0"))
    wanted = Requirement(facts.HOSTNAME, Operator.IN, ("n0",))
    assert persistent_volumes.translate_affinity(volume, ZONE_KEY) == one_term(wanted, zone_in("a"))


def test_a_beta_region_is_renamed_with_its_values_and_only_with_them() -> None:
    zone = Requirement(facts.ZONE_BETA, Operator.IN, ("a",))
    named = Requirement(facts.REGION_BETA, Operator.IN, ("west",))
    exists = Requirement(facts.REGION_BETA, Operator.EXISTS)
    for region, becomes in ((named, Requirement(facts.REGION, Operator.IN, ("west",))), (exists, exists)):
        volume = disk("v", node_affinity=one_term(zone, region))
        assert persistent_volumes.translate_affinity(volume, ZONE_KEY) == one_term(zone_in("a"), becomes)


def test_a_driver_that_tells_no_zones_apart_leaves_a_volume_as_it_is() -> None:
    azure = {"source": "azureDisk", "driver": "disk.csi.azure.com", "handle": "disk-1"}
    nodes = node("n0", zone="a"), node("n1", zone="b")
    moved = [facts.CSINode(each.name, migrated_plugins=frozenset(("kubernetes.io/azure-disk",))) for each in nodes]
    snapshot = cluster(*nodes, *moved, bound("data", "v"), disk("v", node_affinity=where(facts.ZONE, "a"), **azure))
    assert [*refused(snapshot, volume_binding, pod(uses("data")))] == ["n1"]
