"""GPUs are counted by a label of their nodes, which each API has somewhere else."""

from typing import Any

import pytest

from windlass.controllers.openshift import machine_apis

LABELS = {machine_apis.ACCELERATOR_LABEL: "nvidia-t4"}
MISSING = "GPU accelerator label not found on MachineSet set."


def machine_set(on_machine: dict[str, str], on_node: dict[str, str], gpus: str = "1") -> dict[str, Any]:
    template = {"metadata": {"labels": on_machine}, "spec": {"metadata": {"labels": on_node}}}
    return {
        "metadata": {"name": "set", "annotations": {machine_apis.GPU_ANNOTATION: gpus}},
        "spec": {"template": template},
    }


def test_machine_api_has_labels_of_nodes_in_the_machines_spec() -> None:
    assert machine_apis.accelerator_label_warning(machine_set({}, LABELS), machine_apis.MACHINE_API) == ""
    assert machine_apis.accelerator_label_warning(machine_set(LABELS, {}), machine_apis.MACHINE_API).startswith(MISSING)


def test_cluster_api_has_them_on_the_machine() -> None:
    assert machine_apis.accelerator_label_warning(machine_set(LABELS, {}), machine_apis.CLUSTER_API) == ""
    assert machine_apis.accelerator_label_warning(machine_set({}, LABELS), machine_apis.CLUSTER_API).startswith(MISSING)


@pytest.mark.parametrize("api", machine_apis.MACHINE_APIS, ids=lambda api: api.authority)
@pytest.mark.parametrize("gpus", ["0", "many", "-1"])
def test_without_gpus_nobody_asks_for_a_label(api: machine_apis.MachineApi, gpus: str) -> None:
    assert machine_apis.accelerator_label_warning(machine_set({}, {}, gpus), api) == ""


@pytest.mark.parametrize("value", ["", "nvidia.com/gpu", "x" * 64])
def test_a_value_that_no_label_may_have_is_told(value: str) -> None:
    labels = {machine_apis.ACCELERATOR_LABEL: value}
    assert "GPU accelerator label" in machine_apis.accelerator_label_warning(
        machine_set({}, labels), machine_apis.MACHINE_API
    )
