"""Names in commands: one namespace and one Deployment through all documents, those that the installation makes."""

import re
from pathlib import Path

import pytest
import yaml

from tools import markdown_documents, source_analysis

MIGRATION = {"migration.md", "shadow-mode.md", "chart-values.md"}
"""About another autoscaler's namespace and Deployment."""
OTHERS = re.compile(
    r"deploy(?:ment)?s?[/ ]cluster-autoscaler(?![-\w])|-n(?:amespace)?[ =]kube-system|[/:]kube-system[/:](?!agent)"
)
ABOUT_THE_CLUSTER = ("kubectl create poddisruptionbudget", "kubectl -n lattice-system")
"""Commands about kube-system itself, and about the Deployment that Lattice is given."""
BASE = source_analysis.ROOT / "deploy" / "kustomize" / "base"
DOCUMENTS = [path for path in markdown_documents.find_documents() if path.name not in {*MIGRATION, "CHANGELOG.md"}]


def find_others(text: str) -> list[str]:
    return [
        line.strip()
        for line in text.splitlines()
        if OTHERS.search(line) and not any(words in line for words in ABOUT_THE_CLUSTER)
    ]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_name_what_the_installation_makes(path: Path) -> None:
    assert find_others(markdown_documents.read(path)) == []


def test_what_is_named_is_made() -> None:
    made = set()
    for name in ("autoscaler", "operator"):
        for body in yaml.safe_load_all((BASE / name / f"{name}.yaml").read_text()):
            if body and body["kind"] == "Deployment":
                made.add((body["metadata"]["namespace"], body["metadata"]["name"]))
    named = set()
    for path in DOCUMENTS:
        named |= set(re.findall(r"kubectl -n (windlass-\S+) .*?\bdeploy/([a-z-]+)", markdown_documents.read(path)))
    assert ("windlass-system", "windlass-autoscaler") in named
    assert named <= made


def test_what_is_wrong_is_noticed() -> None:
    assert find_others("kubectl -n kube-system logs deploy/windlass-autoscaler")
    assert find_others("kubectl -n windlass-system rollout status deploy/cluster-autoscaler")
    assert find_others("kubectl get --raw /api/v1/namespaces/kube-system/pods/POD:8085/proxy/readyz")
    assert find_others("--as=system:serviceaccount:kube-system:x")
    assert not find_others("  kube-system/agent-zone-a-1  goes with the node")
