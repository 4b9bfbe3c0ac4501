"""Where one test bed lives, and which parts it has. Plain values: a bed that is up can be found again from them."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from testbed import pki, ports

DESCRIPTION = "bed.json"
"""In the directory while the bed is up."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What runs beside etcd and kube-apiserver."""

    scheduler: bool = False
    kwok: bool = False
    """Nodes that carry KWOK's annotation become Ready, and pods bound to them run."""
    capi: bool = False
    """Cluster API's manager and the fake infrastructure: Machines become KWOK nodes. Brings KWOK along."""
    capi_rate_limiting: bool = False
    """As in production, each object is reconciled at most once a second; tests of timing want that."""
    capi_machine_pools: bool = True
    """Cluster API's own MachinePool controller. Without it another one may look after MachinePools."""
    capi_topology: bool = False
    """Cluster API's topology controller: Clusters that a ClusterClass describes."""
    capi_v1beta1: bool = True
    """The older version of Cluster API's kinds. The API server keeps, and has converted, every object once for each."""
    node_lifecycle: bool = True
    """Nodes are marked by controllers, as unready if they say nothing. Without it they stay as they are made."""
    audited: bool = False
    """What ServiceAccounts ask for is written down (`Site.audit_log`). Owner references are judged as OpenShift does:
    who may not finalize an owner may not make it wait for what it owns. Lists are lists, not streams."""

    @property
    def has_nodes(self) -> bool:
        return self.kwok or self.capi


@dataclass(frozen=True, slots=True)
class Site:
    """The directory and the ports of a test bed."""

    directory: Path
    ports: ports.Ports
    choice: Choice

    @property
    def files(self) -> pki.Files:
        return pki.Files(self.directory / "pki")

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports.apiserver}"

    @property
    def etcd(self) -> str:
        return f"http://127.0.0.1:{self.ports.etcd}"

    @property
    def webhooks(self) -> str:
        return f"https://127.0.0.1:{self.ports.capi_webhooks}"

    @property
    def stages(self) -> Path:
        """What KWOK's nodes and pods go through."""
        return self.directory / "kwok" / "stages.yaml"

    @property
    def audit_policy(self) -> Path:
        return self.directory / "audit.yaml"

    @property
    def audit_log(self) -> Path:
        """A line of JSON for each answer."""
        return self.directory / "log" / "audit"

    def kubeconfig(self, user: str) -> Path:
        return self.directory / "kubeconfig" / user

    def save(self) -> None:
        """Say that the bed is up."""
        description = {"ports": asdict(self.ports), "choice": asdict(self.choice)}
        (self.directory / DESCRIPTION).write_text(json.dumps(description, indent=2))


def load(directory: Path) -> Site | None:
    """The site of the bed that is up in a directory, if there is one."""
    try:
        found = json.loads((directory / DESCRIPTION).read_text())
    except FileNotFoundError:
        return None
    return Site(directory, ports.Ports(**found["ports"]), Choice(**found["choice"]))
