"""The two APIs that a MachineSet may be of."""

from dataclasses import dataclass

from windlass.controllers.openshift import names
from windlass.kube.resources import Resource, Unstructured


@dataclass(frozen=True, slots=True)
class Api:
    """An API with MachineSets: where they are, and what its annotations begin with."""

    group: str
    versions: tuple[str, ...]
    """Those that are known here, the best first."""
    namespace: str
    authority: str
    """As `authoritativeAPI` spells it."""

    @property
    def min_size(self) -> str:
        """The annotation with the least size that an autoscaler may make."""
        return f"{self.group}/{names.MIN_SIZE}"

    @property
    def max_size(self) -> str:
        return f"{self.group}/{names.MAX_SIZE}"

    @property
    def delete_machine(self) -> str:
        """The annotation of a Machine that goes first."""
        return f"{self.group}/{names.DELETE_MACHINE}"

    @property
    def mirror(self) -> "Api":
        """The other one."""
        return CLUSTER_API if self is MACHINE_API else MACHINE_API

    def knows(self, api_version: str) -> bool:
        group, _, version = api_version.partition("/")
        return group == self.group and version in self.versions

    def machine_sets(self, version: str = "") -> Resource[Unstructured]:
        """Its MachineSets, in a version of this API; in the best that is known if none is named."""
        return self._resource("machinesets", "MachineSet", version)

    def machines(self, version: str = "") -> Resource[Unstructured]:
        return self._resource("machines", "Machine", version)

    def _resource(self, plural: str, kind: str, version: str) -> Resource[Unstructured]:
        return Resource(f"{self.group}/{version or self.versions[0]}", plural, kind, True, Unstructured)


MACHINE_API = Api("machine.openshift.io", ("v1beta1",), names.MACHINE_API_NAMESPACE, "MachineAPI")
CLUSTER_API = Api("cluster.x-k8s.io", ("v1beta2", "v1beta1"), names.CLUSTER_API_NAMESPACE, "ClusterAPI")
BOTH = (MACHINE_API, CLUSTER_API)


def find(api_version: str) -> Api | None:
    """The API that an apiVersion is of; None if it is neither, or a version that is not known here."""
    return next((api for api in BOTH if api.knows(api_version)), None)
