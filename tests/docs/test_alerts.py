"""Alerts: each fires where it should and is silent where it should be, and names only metrics that exist."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed import cache, components
from tools import markdown_documents, metrics_reference, source_analysis
from windlass.autoscaler import shadow_comparison

RULES = source_analysis.ROOT / "deploy" / "monitoring" / "alerts.yaml"
SERIES = Path(__file__).with_name("alerts.yaml")
DASHBOARDS = sorted((source_analysis.ROOT / "deploy" / "monitoring" / "grafana").glob("*.json"))
SEVERITIES = {"critical", "warning", "info"}

_METRIC = re.compile(r"\b((?:cluster_autoscaler|windlass)_\w+)(?:\{([^}]*)\})?")
_BY = re.compile(r"\bby \(([^)]*)\)")
_SUFFIXES = {"histogram": ("_bucket", "_count", "_sum"), "summary": ("_count", "_sum")}
_SCRAPED = {"namespace", "job", "pod", "le", "instance"}
"""Labels that Prometheus adds, or that histograms have."""


def read_alerts() -> list[dict[str, Any]]:
    found = yaml.safe_load(RULES.read_text())
    return [rule for group in found["spec"]["groups"] for rule in group["rules"]]


def known_series() -> dict[str, set[str]]:
    """Every series that can be asked for, and its labels."""
    found = {}
    for family in metrics_reference.find():
        for suffix in ("", *_SUFFIXES.get(family.kind, ())):
            found[family.name + suffix] = set(family.labels)
    return found


def find_unknown(expression: str) -> list[str]:
    """Metrics and labels in an expression that no process shows."""
    known = known_series()
    asked = _METRIC.findall(expression)
    unknown = [name for name, _ in asked if name not in known]
    labels = {label for name, _ in asked for label in known.get(name, ())} | _SCRAPED
    for _, matchers in asked:
        unknown += [label for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", matchers) if label not in labels]
    for grouped in _BY.findall(expression):
        unknown += [label.strip() for label in grouped.split(",") if label.strip() not in labels]
    return unknown


@pytest.mark.parametrize("rule", read_alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_what_happens_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in SEVERITIES
    assert rule["annotations"]["summary"]
    assert rule["annotations"]["description"]
    assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{rule['alert'].lower()}"


@pytest.mark.parametrize("rule", read_alerts(), ids=lambda rule: rule["alert"])
def test_metrics_and_labels_of_an_alert_exist(rule: dict[str, Any]) -> None:
    assert find_unknown(rule["expr"]) == []


def find_expressions() -> list[str]:
    """PromQL in documents."""
    texts = (markdown_documents.read(path) for path in markdown_documents.find_documents())
    return [block for text in texts for block in re.findall(r"^```promql\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]


def test_expressions_in_documents_name_metrics_labels_and_verdicts_that_exist() -> None:
    expressions = find_expressions()
    assert len(expressions) >= 2
    assert [find_unknown(expression) for expression in expressions] == [[] for _ in expressions]
    verdicts = re.findall(r"verdict!?=~?\"([^\"]*)\"", "".join(expressions))
    asked = {word for words in verdicts for word in words.split("|")}
    assert asked == {shadow_comparison.VerdictKind.AGREED.value, shadow_comparison.VerdictKind.LATE.value}


def test_metrics_that_do_not_exist_are_noticed() -> None:
    assert find_unknown('sum by (zone) (windlass_nothing{kind="a"})') == ["windlass_nothing", "kind", "zone"]


def test_every_alert_is_tried_firing_and_silent() -> None:
    tried = [item for test in yaml.safe_load(SERIES.read_text())["tests"] for item in test["alert_rule_test"]]
    names = {rule["alert"] for rule in read_alerts()}
    assert {entry["alertname"] for entry in tried if entry["exp_alerts"]} == names
    assert {one["alertname"] for one in tried if not one["exp_alerts"]} == names


def test_alerts_fire_and_keep_silent_as_said(tmp_path: Path) -> None:
    if not cache.place(components.PROMTOOL).is_dir():
        pytest.skip("NO PROMTOOL HERE: ALERTS ARE NOT TRIED ON SERIES (`make long KIND=alerts` builds it; needs Go)")
    rules = tmp_path / "rules.yaml"
    rules.write_text(yaml.safe_dump(yaml.safe_load(RULES.read_text())["spec"]))
    tests = tmp_path / "tests.yaml"
    tests.write_text(yaml.safe_dump({"rule_files": [str(rules)], **yaml.safe_load(SERIES.read_text())}))
    for command in (["check", "rules", str(rules)], ["test", "rules", str(tests)]):
        done = subprocess.run(
            [cache.binary(components.PROMTOOL), *command], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_a_dashboard() -> None:
    assert DASHBOARDS


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_metrics_and_labels_of_a_dashboard_exist(path: Path) -> None:
    dashboard = json.loads(path.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert expressions
    for expression in expressions:
        assert (expression, find_unknown(expression)) == (expression, [])


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_nobody_outside_and_every_panel_says_what_it_shows(path: Path) -> None:
    text = path.read_text()
    assert "http://" not in text
    assert "https://" not in text
    for panel in json.loads(text)["panels"]:
        if panel["type"] != "row":
            assert panel["title"]
            assert panel["description"]
