"""GPUs are counted by a label of their nodes, which each API has somewhere else."""

from typing import Any

import pytest

from windlass.controllers.openshift import accelerators, apis, capacity, names

LABELS = {names.ACCELERATOR_LABEL: "nvidia-t4"}
MISSING = "GPU accelerator label not found on MachineSet set."


def machine_set(on_machine: dict[str, str], on_node: dict[str, str], gpus: str = "1") -> dict[str, Any]:
    template = {"metadata": {"labels": on_machine}, "spec": {"metadata": {"labels": on_node}}}
    return {"metadata": {"name": "set", "annotations": {capacity.GPU: gpus}}, "spec": {"template": template}}


def test_machine_api_has_labels_of_nodes_in_the_machines_spec() -> None:
    assert accelerators.warn(machine_set({}, LABELS), apis.MACHINE_API) == ""
    assert accelerators.warn(machine_set(LABELS, {}), apis.MACHINE_API).startswith(MISSING)


def test_cluster_api_has_them_on_the_machine() -> None:
    assert accelerators.warn(machine_set(LABELS, {}), apis.CLUSTER_API) == ""
    assert accelerators.warn(machine_set({}, LABELS), apis.CLUSTER_API).startswith(MISSING)


@pytest.mark.parametrize("api", apis.BOTH, ids=lambda api: api.authority)
@pytest.mark.parametrize("gpus", ["0", "many", "-1"])
def test_without_gpus_nobody_asks_for_a_label(api: apis.Api, gpus: str) -> None:
    assert accelerators.warn(machine_set({}, {}, gpus), api) == ""


@pytest.mark.parametrize("value", ["", "nvidia.com/gpu", "x" * 64])
def test_a_value_that_no_label_may_have_is_told(value: str) -> None:
    labels = {names.ACCELERATOR_LABEL: value}
    assert "GPU accelerator label" in accelerators.warn(machine_set({}, labels), apis.MACHINE_API)
