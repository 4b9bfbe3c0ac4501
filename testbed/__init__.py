"""The test bed: a real Kubernetes control plane and Cluster API on loopback, for tests and for trying things out.

    with testbed.running(capi=True, scheduler=True) as bed:
        bed.kubeconfig, bed.api, bed.kubectl("get", "nodes")

etcd, kube-apiserver, kube-controller-manager, and on request kube-scheduler, KWOK in place of kubelets, Cluster API's
manager and a fake infrastructure provider. Everything is the real thing but the machines and the containers.

Lives here: building those from the Go module proxy, starting and ending them, the fake infrastructure. Never here:
anything of windlass. docs/testbed.md is for its users.
"""

from testbed.bed import Bed
from testbed.sharing import running, shared
from testbed.site import Choice

__all__ = ["Bed", "Choice", "running", "shared"]
