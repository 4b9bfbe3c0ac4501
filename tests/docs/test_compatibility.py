"""The page about versions says what the test bed pins, and what the package and the chart declare."""

import re
import tomllib

import yaml

from testbed import components
from tests.install import pythons
from tools import chart_values_reference, markdown_documents, source_analysis
from windlass import scheduler_releases

ROOT = source_analysis.ROOT
PAGE = markdown_documents.read(ROOT / "docs" / "compatibility.md")
ROWS = {
    cells[0].partition(" of ")[0].partition(",")[0]: cells[1:]
    for cells in (line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| "))
}


def find_pin(pins: str, module: str) -> str:
    """The version in a go.mod of the test bed."""
    text = (components.PINS / pins / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^\s*(?:require )?{re.escape(module)} v(\S+)", text, re.MULTILINE)
    assert found is not None, (pins, module)
    return found[1]


def test_what_the_tests_run_on_is_what_the_test_bed_pins() -> None:
    tested = {name: cells[1] for name, cells in ROWS.items() if len(cells) > 1}
    assert find_pin("kubernetes", "k8s.io/kubernetes") in tested["Kubernetes"]
    assert find_pin("kubernetes-1.37", "k8s.io/kubernetes") in tested["Kubernetes"]
    assert tested["Cluster API"].startswith(components.CLUSTER_API.version.removeprefix("v"))
    assert tested["Helm"] == components.HELM.version.removeprefix("v")
    etcd, kwok = (item.version.removeprefix("v") for item in (components.ETCD, components.KWOK))
    assert tested["etcd"] == f"{etcd}, {kwok}"


def test_what_it_works_with_is_what_package_and_chart_declare() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    assert named == list(pythons.VERSIONS) == re.findall(r"3\.\d+", ROWS["Python"][1])
    assert ROWS["Python"][0] == f"{project['requires-python'].removeprefix('>=')} and newer"
    about = yaml.safe_load((ROOT / "deploy/helm/windlass/Chart.yaml").read_text(encoding="utf-8"))
    oldest = about["kubeVersion"].removeprefix(">=").removesuffix(".0-0")
    assert ROWS["Kubernetes"][0].startswith(f"{oldest} and newer")
    releases = " and ".join(scheduler_releases.KNOWN_RELEASES)
    assert ROWS["filters"][0].startswith(f"[{releases}](reference/releases.md)")
    (version,) = re.findall(r"its chart (\S+)", " ".join(ROWS["Cluster Autoscaler's interfaces"]))
    assert f"(version {version})" in chart_values_reference.page()


def test_the_chart_says_that_it_needs_the_same_release() -> None:
    readme = (ROOT / "deploy/helm/windlass/README.md").read_text(encoding="utf-8")
    assert f"Needs Kubernetes {ROWS['Kubernetes'][0].partition(' ')[0]} or newer" in readme
