"""DaemonSet pods as the DaemonSet controller writes them: each with a node affinity that names its node.

`DAEMON_SETS` in the environment is how many DaemonSets there are (8); `NODE_AFFINITY=0` leaves the affinity out, and
all else is the same. `ingest` sends these pods over HTTP; `memory` and `loop-15k` decode and read them one by one, as
informers do. `python -m benchmarks daemonsets` runs each of the three with and without, and gives the ratios.
"""

import os
from collections.abc import Iterator
from typing import Any

import msgspec

from benchmarks import pod_templates
from windlass.autoscaler.readers import pods
from windlass.engine.model import facts, node_groups
from windlass.kube.models import pods as models

COUNT = int(os.environ.get("DAEMON_SETS", "8"))
HAS_AFFINITY = os.environ.get("NODE_AFFINITY", "1") != "0"
NAMESPACE = "kube-system"

_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)
_DECODER = msgspec.json.Decoder(models.Pod)


def name(number: int) -> str:
    return f"daemon-{number}"


def uid(number: int) -> str:
    return f"00000000-0000-4000-a000-{number:012d}"


def daemon_sets() -> tuple[node_groups.DaemonSet, ...]:
    """The DaemonSets, with the pod that each would add to a new node."""
    spec = facts.PodSpec(requests=((facts.CPU, 100), (facts.MEMORY, 128 << 20)))
    made = []
    for number in range(COUNT):
        owner = facts.Owner("apps/v1", "DaemonSet", name(number), uid(number))
        pod = facts.Pod(NAMESPACE, name(number), labels={"app": name(number)}, owner=owner, spec=spec)
        made.append(node_groups.DaemonSet(NAMESPACE, name(number), uid(number), pod))
    return tuple(made)


def pod_tree(number: int, state: str) -> dict[str, Any]:
    """A pod of a DaemonSet as the API server sends it, by number of the DaemonSet."""
    tree = pod_templates.pod_tree(number, state)
    labels = {"app": name(number), "controller-revision-hash": f"{number:010x}", "pod-template-generation": "1"}
    owner = {
        "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name(number), "uid": uid(number), "controller": True,
        "blockOwnerDeletion": True,
    }  # fmt: skip
    for container in tree["spec"]["containers"]:
        container["resources"] = {"requests": {"cpu": "0", "memory": "0"}}
    tree["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    tree["spec"] |= {
        "affinity": pin() if HAS_AFFINITY else {},
        "tolerations": [
            {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": effect} for what, effect in _TOLERATED
        ],
    }
    tree["metadata"] |= {
        "generateName": f"{name(number)}-", "namespace": NAMESPACE, "labels": labels, "ownerReferences": [owner],
    }  # fmt: skip
    return tree


def pin() -> dict[str, Any]:
    """The affinity that the DaemonSet controller gives a pod."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["@NODE@"]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


class DaemonPods:
    """Reads running DaemonSet pods of any node."""

    def __init__(self) -> None:
        self._templates = [pod_templates.Template(pod_tree(number, "running")) for number in range(COUNT)]
        self._made = 0

    def on(self, node_name: str) -> Iterator[facts.Pod]:
        """One pod of each DaemonSet, bound to a node."""
        return (self.read(number, node_name) for number in range(COUNT))

    def read(self, number: int, node_name: str) -> facts.Pod:
        self._made += 1
        text = self._templates[number].render(
            NAME=b"daemon-%d-%07x" % (number, self._made),
            UID=b"00000000-0000-4000-b000-%012d" % self._made,
            VERSION=b"1000",
            RANDOM=b"%05x" % (self._made % 2**20),
            NODE=node_name.encode(),
        )
        return pods.read_pod(_DECODER.decode(text))
