"""Copies: what the chart and the overlays are made of besides themselves, held to where it comes from.

Helm and kustomize read nothing outside their own directories. So the files are there twice, and one of them is made.
"""

from collections.abc import Mapping
from pathlib import Path

from tools import source_analysis

_CHART = "deploy/helm/windlass/files"
_KUSTOMIZE = "deploy/kustomize"

COPIES: Mapping[str, tuple[str, ...]] = {
    f"{_CHART}/rbac": ("rbac/*.yaml",),
    f"{_CHART}/crds": ("crds/*.yaml",),
    f"{_CHART}/policies": ("policies/*.yaml",),
    f"{_CHART}/admission": ("admission/*.yaml",),
    f"{_CHART}/webhooks": ("webhooks/*.yaml",),
    f"{_CHART}/monitoring": ("monitoring/alerts.yaml",),
    f"{_CHART}/dashboards": ("monitoring/grafana/*.json",),
    f"{_KUSTOMIZE}/base/autoscaler/made": ("rbac/autoscaler.yaml", "rbac/autoscaler-clusterapi.yaml"),
    f"{_KUSTOMIZE}/base/operator/made": ("rbac/operator.yaml",),
    f"{_KUSTOMIZE}/components/monitoring/made": ("monitoring/alerts.yaml", "monitoring/grafana/windlass.json"),
    f"{_KUSTOMIZE}/components/machine-pool/made": ("rbac/machine-pool.yaml", "rbac/machine-pool-providers.yaml"),
    f"{_KUSTOMIZE}/overlays/eks-anywhere/made": ("rbac/eks-anywhere.yaml",),
    f"{_KUSTOMIZE}/overlays/lattice/made": ("rbac/lattice*.yaml",),
    f"{_KUSTOMIZE}/overlays/openshift/made": (
        "rbac/cluster-autoscaler*.yaml",
        "rbac/machine-autoscaler.yaml",
        "rbac/machineset-sync.yaml",
        "crds/autoscaling.openshift.io_*.yaml",
        "crds/autoscaling.x-k8s.io_provisioningrequests.yaml",
        "policies/*.yaml",
        "webhooks/autoscaling.openshift.io.yaml",
        "monitoring/alerts.yaml",
    ),
}
"""Where copies are, and of what below deploy/. Nothing else is in these directories."""


def write() -> list[Path]:
    """Write what is missing or no longer true, and take away what is a copy of nothing; which."""
    stale, made = find_stale(), files()
    for path in stale:
        if path in made:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(made[path])
        else:
            path.unlink()
    return stale


def find_stale() -> list[Path]:
    """Copies that are missing, that differ, or that are of nothing."""
    made = files()
    there = {path for place in COPIES for path in (source_analysis.ROOT / place).glob("*")}
    wrong = {path for path, content in made.items() if not path.exists() or path.read_bytes() != content}
    return sorted(wrong | (there - made.keys()))


def files() -> dict[Path, bytes]:
    return {
        source_analysis.ROOT / place / path.name: path.read_bytes()
        for place, patterns in COPIES.items()
        for pattern in patterns
        for path in sorted((source_analysis.ROOT / "deploy").glob(pattern))
    }
