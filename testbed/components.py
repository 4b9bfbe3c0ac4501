"""What the test bed is built from: one main package of one Go module each, at the version that `pins/` says.

Every directory of `pins/` is a go.mod of its own, so that each binary gets the dependencies that its own project
releases it with, and a newer version of one rebuilds that one only.
"""

import hashlib
import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

PINS = Path(__file__).parent / "pins"
_RECIPE = "1"
"""Raised when the same pins shall give another result."""


@dataclass(frozen=True, slots=True)
class Component:
    """A binary, where its source is, and how it learns its version."""

    name: str
    pins: str
    module: str
    package: str
    version_package: str = ""
    """Where the linker writes the version. Cluster API refuses an API server that says v0.0.0."""
    version_variable: str = ""

    @property
    def directory(self) -> Path:
        return PINS / self.pins

    @property
    def version(self) -> str:
        pins = self.directory / "go.mod"
        pinned = re.search(rf"^\s*{re.escape(self.module)} (v\S+)", pins.read_text(), re.MULTILINE)
        if pinned is None:
            raise LookupError(f"{pins}: no version of {self.module}")
        return pinned[1]

    @property
    def ldflags(self) -> str:
        stamps = {}
        if self.version_variable:
            stamps = {self.version_variable: self.version}
        elif self.version_package:
            major, minor, _ = self.version.removeprefix("v").split(".", 2)
            fields = {"Version": self.version, "Major": major, "Minor": minor, "TreeState": "clean"}
            stamps = {f"{self.version_package}.git{field}": value for field, value in fields.items()}
        return " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in stamps.items())])

    @property
    def slot(self) -> str:
        """The name of its place in the cache: another version, recipe or machine has another."""
        text = [_RECIPE, self.package, self.ldflags, platform.system(), platform.machine()]
        text += [(self.directory / name).read_text() for name in ("go.mod", "go.sum")]
        digest = hashlib.sha256("\0".join(text).encode()).hexdigest()
        return f"{self.name}-{self.version}-{digest[:12]}"


_KUBERNETES = {"1.36": "kubernetes", "1.37": "kubernetes-1.37"}
"""The pins of each release that a bed can be of."""


def _choose_kubernetes() -> str:
    """Pins of the release that WINDLASS_TESTBED_KUBERNETES names; 1.36 unless it names one."""
    chosen = os.environ.get("WINDLASS_TESTBED_KUBERNETES") or "1.36"
    if chosen not in _KUBERNETES:
        accepted = " or ".join(_KUBERNETES)
        raise LookupError(f"WINDLASS_TESTBED_KUBERNETES: found {chosen!r}, expected {accepted}")
    return _KUBERNETES[chosen]


_STAMP = "k8s.io/component-base/version"
_HELM_VERSION = "helm.sh/helm/v4/internal/version.version"

ETCD = Component("etcd", "etcd", "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3")
KUBE_APISERVER, KUBE_SCHEDULER, KUBE_CONTROLLER_MANAGER, KUBECTL = (
    Component(name, _choose_kubernetes(), "k8s.io/kubernetes", f"k8s.io/kubernetes/cmd/{name}", _STAMP)
    for name in ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubectl")
)
KWOK = Component(
    "kwok",
    "kwok",
    "sigs.k8s.io/kwok",
    "sigs.k8s.io/kwok/cmd/kwok",
    version_variable="sigs.k8s.io/kwok/pkg/consts.Version",
)
CLUSTER_API = Component(
    "capi-manager",
    "capi",
    "sigs.k8s.io/cluster-api",
    "sigs.k8s.io/cluster-api/core",
    "sigs.k8s.io/cluster-api/version",
)

EVERY = (ETCD, KUBE_APISERVER, KUBE_SCHEDULER, KUBE_CONTROLLER_MANAGER, KUBECTL, KWOK, CLUSTER_API)
"""In building order: a bare API server is there first."""

PROMTOOL = Component(
    "promtool", "promtool", "github.com/prometheus/prometheus", "github.com/prometheus/prometheus/cmd/promtool"
)
"""Prometheus' own tool, which alerts are tested with. No part of a bed: it is built when it is asked for."""

HELM = Component("helm", "helm", "helm.sh/helm/v4", "helm.sh/helm/v4/cmd/helm", version_variable=_HELM_VERSION)
"""What renders charts."""

TOOLS = (HELM,)
"""Built with the bed, which does without them: a test that needs one says so."""
