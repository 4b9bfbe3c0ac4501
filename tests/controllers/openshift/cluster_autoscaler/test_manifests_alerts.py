"""The four alerts of the PrometheusRule, on series: each fires where it should, and is silent elsewhere."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed import cache, components
from windlass.controllers.openshift.cluster_autoscaler import manifests

OURS, ANOTHER = "cluster-autoscaler-default", "another-autoscaler"
SKIPPED = "skipped_scale_events_count"
RULES = manifests.build_prometheus_rule("default", "ns")["spec"]
CASES = [
    ("ClusterAutoscalerUnschedulablePods", "unschedulable_pods_count", {}, "0x10 3x60", "29m", "31m"),
    ("ClusterAutoscalerNotSafeToScale", "cluster_safe_to_autoscale", {}, "1x10 0x60", "25m", "27m"),
    *(
        (
            f"ClusterAutoscalerUnableToScale{title}LimitReached",
            SKIPPED,
            {"direction": "up", "reason": f"{reason}ResourceLimit"},
            "0x10 1+1x60",
            "25m",
            "27m",
        )
        for title, reason in (("CPU", "Cpu"), ("Memory", "Memory"))
    ),
]


@pytest.mark.parametrize(
    ("alert", "metric", "labels", "values", "silent", "fires"), CASES, ids=[each[0] for each in CASES]
)
def test_an_alert_fires_after_a_while_and_for_our_autoscaler_alone(
    alert: str, metric: str, labels: dict[str, str], values: str, silent: str, fires: str, tmp_path: Path
) -> None:
    if not cache.place(components.PROMTOOL).is_dir():
        pytest.skip("NO PROMTOOL HERE: ALERTS ARE NOT TRIED ON SERIES (`make long KIND=alerts` builds it; needs Go)")
    series = [
        {"series": f"cluster_autoscaler_{metric}{_to_text({**labels, 'service': item})}", "values": values}
        for item in (OURS, ANOTHER)
    ]
    tried = [
        {"alertname": alert, "eval_time": at, "exp_alerts": expected}
        for at, expected in ((silent, []), (fires, [_expect(alert, labels)]))
    ]
    asked = {"interval": "1m", "input_series": series, "alert_rule_test": tried}
    _run(tmp_path, {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [asked]})


def _to_text(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def _expect(alert: str, labels: dict[str, str]) -> dict[str, Any]:
    (rule,) = [item for group in RULES["groups"] for item in group["rules"] if item["alert"] == alert]
    said = {name: text.replace("{{ $value }}", "3") for name, text in rule["annotations"].items()}
    return {"exp_labels": {**labels, "service": OURS, **rule["labels"]}, "exp_annotations": said}


def _run(directory: Path, tests: dict[str, Any]) -> None:
    (directory / "rules.yaml").write_text(yaml.safe_dump(RULES))
    (directory / "tests.yaml").write_text(yaml.safe_dump(tests))
    command = [cache.binary(components.PROMTOOL), "test", "rules", str(directory / "tests.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
