"""Cluster Autoscaler's chart: every value is in the table, and what the table says gives the same process."""

import fnmatch
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.install import rendered_manifests
from tests.install.containerfile import ROOT
from tests.install.rendered_manifests import Object, chart_of, of_kind, read
from tools import chart_schema, chart_values_reference
from windlass.autoscaler.options import command_line

UPSTREAM = ROOT.parent / "shared" / "upstream" / "cluster-autoscaler-chart"
ROWS = {row.old: row for row in chart_values_reference.find_rows()}
HAS_UPSTREAM = pytest.mark.skipif(
    not UPSTREAM.is_dir(), reason="NOT JUDGED: Cluster Autoscaler's chart is not at ../shared/upstream"
)


def find_leaves(values: Object, above: str = "") -> Iterator[tuple[str, Any]]:
    """Values by path, down to the names that the table has."""
    for key, value in values.items():
        path = f"{above}{key}"
        if path not in ROWS and isinstance(value, dict) and value:
            yield from find_leaves(value, f"{path}.")
        else:
            yield path, value


def find_row(path: str) -> chart_values_reference.Row | None:
    several = (row for row in ROWS.values() if any(fnmatch.fnmatch(path, name) for name in row.old.split(", ")))
    return ROWS.get(path) or next(several, None)


@HAS_UPSTREAM
def test_every_value_of_the_chart_is_in_the_table() -> None:
    upstream = yaml.safe_load((UPSTREAM / "values.yaml").read_text())
    version = yaml.safe_load((UPSTREAM / "Chart.yaml").read_text())["version"]
    assert [path for path, _ in find_leaves(upstream) if find_row(path) is None] == []
    assert f"(version {version})" in chart_values_reference.page()
    known = {path for path, _ in find_leaves(upstream)} | {"podDisruptionBudget.minAvailable"}
    assert [old for old, row in ROWS.items() if not any(find_row(path) is row for path in known)] == []


def test_every_value_that_the_table_names_is_one_of_ours() -> None:
    ours = {str(value) for value in chart_schema.find_values()}
    flags = chart_schema.find_flags()["autoscaler"]
    for row in ROWS.values():
        flag = row.new.removeprefix("autoscaler.flags.")
        is_below = any(path.startswith(f"{row.new}.") for path in ours)
        assert not row.new or row.new in ours or is_below or flag in flags, row
        assert row.copy or row.note, row


def put(values: Object, path: str, value: Any) -> None:
    *above, last = path.split(".")
    for key in above:
        values = values.setdefault(key, {})
    values[last] = value


def translate(upstream: Object) -> Object:
    """What a reader of the table makes of a file of values."""
    found: Object = {}
    mode = upstream.get("clusterAPIMode", "incluster-incluster")
    for path, value in find_leaves(upstream):
        row = find_row(path)
        assert row is not None, path
        if row.copy:
            put(found, row.new, value)
    discovery = upstream["autoDiscovery"]
    parts = [f"{key}={discovery[key]}" for key in ("clusterName", "namespace") if key in discovery]
    parts += [f"{key}={value}" for label in discovery.get("labels", ()) for key, value in label.items()]
    put(found, "autoscaler.discovery", [f"clusterapi:{','.join(parts)}"])
    if mode == "incluster-kubeconfig":
        (secret,) = upstream["extraVolumeSecrets"].values()
        put(found, "autoscaler.kubeconfigs.management", {"secret": secret["name"], "key": secret["items"][0]["key"]})
    preset = {"logtostderr": True, "stderrthreshold": "info", "v": 4}
    put(found, "autoscaler.extraArgs", preset | found["autoscaler"].get("extraArgs", {}))
    if mode.startswith("kubeconfig"):
        del found["autoscaler"]["priorities"]  # which is created in the workload cluster
    return found


PATHS = ("--kubeconfig", "--cloud-config")
"""Where files are mounted is the chart's."""


def read_words(container: Object) -> list[tuple[str, str]]:
    words = (*container["command"], *container.get("args", ()))
    parted = (word.partition("=") for word in words if word.startswith("--") and not word.startswith("--address"))
    return sorted((name, "" if name in PATHS else value or "true") for name, _, value in parted)


@HAS_UPSTREAM
@pytest.mark.parametrize("name", ["default", "self-managed", "workload-from-management", "incluster-kubeconfig"])
def test_translated_values_run_the_same_process(name: str) -> None:
    upstream = yaml.safe_load((UPSTREAM / "values" / f"{name}.yaml").read_text())
    objects = read(Path(UPSTREAM / "rendered" / f"{name}.yaml").read_text())
    (wanted,) = of_kind(objects, "Deployment")
    made = rendered_manifests.render_values(translate(upstream), namespace=wanted["metadata"]["namespace"])
    assert made.returncode == 0, made.stderr
    (found,) = of_kind(read(made.stdout), "Deployment")
    pods = [body["spec"]["template"]["spec"] for body in (wanted, found)]
    (before,), (after,) = (pod["containers"] for pod in pods)
    command_line.parse_command_line(command_line.split_arguments(after["args"]))
    assert read_words(after) == read_words(before)
    own = {"POD_NAMESPACE", "SERVICE_ACCOUNT"}
    assert after.get("env", []) == [variable for variable in before["env"] if variable["name"] not in own]
    assert found["spec"]["replicas"] == wanted["spec"]["replicas"]
    assert found["spec"].get("strategy") == wanted["spec"].get("strategy")
    for field in ("hostNetwork", "topologySpreadConstraints", "priorityClassName"):
        assert pods[1].get(field) == pods[0].get(field), field
    for kind in ("ServiceMonitor", "VerticalPodAutoscaler", "PrometheusRule"):
        assert len(of_kind(read(made.stdout), kind)) == len(of_kind(objects, kind)), kind


def test_priorities_are_not_left_where_nobody_reads_them() -> None:
    elsewhere = {"priorities": {"1": [".*"]}, "kubeconfigs": {"workload": {"secret": "work"}}}
    answer = rendered_manifests.render_values({"autoscaler": elsewhere})
    assert "expected the ConfigMap cluster-autoscaler-priority-expander in the workload cluster" in answer.stderr
    (deployment,) = of_kind(chart_of({"autoscaler": {"kubeconfigs": elsewhere["kubeconfigs"]}}), "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "--namespace=kube-system" in container["args"]
