"""Accelerators: GPUs that are to be counted need a label on their nodes. Without it they work, and are not counted."""

import re
from collections.abc import Mapping
from typing import Any

from windlass.controllers.openshift import apis, capacity, names

_LABEL_CHARACTERS = 63
_LABEL = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
_NOT_A_LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_NO_ERROR = (
    "This is not an error but may cause issues when using GPU resource limits with the Cluster Autoscaler. For more "
    "information on the proper use of these values, please see https://access.redhat.com/solutions/6055181"
)

Json = Mapping[str, Any]


def warn(machine_set: Json, api: apis.Api) -> str:
    """What is wrong with the label of a MachineSet of an API that promises GPUs; empty if nothing is."""
    metadata = machine_set.get("metadata") or {}
    if not has_gpus(metadata.get("annotations") or {}):
        return ""
    return check_labels(read_labels(machine_set, api), metadata.get("name") or "")


def has_gpus(annotations: Mapping[str, str]) -> bool:
    """A promise that cannot be read is none."""
    try:
        return capacity.count_gpus(annotations) > 0
    except capacity.Unreadable:
        return False


def read_labels(machine_set: Json, api: apis.Api) -> Mapping[str, str]:
    """The labels of its nodes: Machine API has them in the Machine's spec, Cluster API on the Machine.

    Machine API's Machines have labels of their own as well, which their nodes never get.
    """
    template = (machine_set.get("spec") or {}).get("template") or {}
    machine = template if api is apis.CLUSTER_API else template.get("spec") or {}
    found: Mapping[str, str] = (machine.get("metadata") or {}).get("labels") or {}
    return found


def check_labels(labels: Mapping[str, str], name: str) -> str:
    if names.ACCELERATOR_LABEL not in labels:
        return f"GPU accelerator label not found on MachineSet {name}. {_NO_ERROR}"
    return check(labels[names.ACCELERATOR_LABEL])


def check(value: str) -> str:
    """What is wrong with a kind of GPU, as a label's value; empty if nothing is."""
    if not value:
        return f"GPU accelerator label is empty. {_NO_ERROR}"
    wrong = [f"must be no more than {_LABEL_CHARACTERS} bytes"] if len(value) > _LABEL_CHARACTERS else []
    if not _LABEL.fullmatch(value):
        wrong.append(_NOT_A_LABEL)
    if not wrong:
        return ""
    return f"GPU accelerator label contains a poorly formed value: {value}, errors: {','.join(wrong)}. {_NO_ERROR}"
