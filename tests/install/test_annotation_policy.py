"""The admission policy for node groups' annotations, its expressions evaluated as an API server does."""

from typing import Any

import pytest
import yaml

from tests.install.rendered_manifests import CHART, VALUES, chart, of_kind
from windlass.cel import compiler

POLICY, BINDING = yaml.safe_load_all((CHART.parents[1] / "admission" / "node-group-annotations.yaml").read_text())
GROUP, CAPACITY = "cluster.x-k8s.io", "capacity.cluster-autoscaler.kubernetes.io"
MIN, MAX = (f"{GROUP}/cluster-api-autoscaler-node-group-{bound}-size" for bound in ("min", "max"))
OPTIONS = f"{GROUP}/autoscaling-options-"
NAMES = ("object", "oldObject", "variables")


def _wrap(annotations: dict[str, str] | None) -> dict[str, Any] | None:
    return None if annotations is None else {"metadata": {"name": "g", "annotations": annotations}}


def refusals(annotations: dict[str, str], before: dict[str, str] | None = None) -> list[str]:
    """The messages of the validations that fail."""
    known: dict[str, Any] = {"object": _wrap(annotations), "oldObject": _wrap(before), "variables": {}}
    for variable in POLICY["spec"]["variables"]:
        known["variables"][variable["name"]] = compiler.compile(variable["expression"], NAMES).evaluate(known)
    return [
        item["message"]
        for item in POLICY["spec"]["validations"]
        if compiler.compile(item["expression"], NAMES).evaluate(known) is not True
    ]


SOUND = {
    MIN: "0",
    MAX: "10",
    OPTIONS + "scaledownunneededtime": "1h30m",
    OPTIONS + "scaledownunreadytime": "10M",
    OPTIONS + "scaledownutilizationthreshold": "0.7",
    OPTIONS + "zeroormaxnodescaling": "True",
    "windlass.internal/price-per-hour": "0.25",
    f"{CAPACITY}/cpu": "4",
    f"{CAPACITY}/memory": "16Gi",
    f"{CAPACITY}/maxPods": "110",
    "example.com/anything": "at all",
}


def test_what_the_autoscaler_reads_is_admitted() -> None:
    assert refusals(SOUND) == []
    assert refusals({}) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (MIN, "-1"),
        (MAX, "ten"),
        (MIN, "11"),
        (OPTIONS + "maxnodeprovisiontime", "soon"),
        (OPTIONS + "scaledowngpuutilizationthreshold", "half"),
        (OPTIONS + "ignoredaemonsetsutilization", "yes"),
        ("windlass.internal/price-per-hour", "cheap"),
        (f"{GROUP}/machine-current-price", "-1"),
        (f"{CAPACITY}/memory", "16 Gi"),
        (f"{CAPACITY}/gpu-count", "1.5"),
    ],
)
def test_nonsense_is_refused_once_and_stays_where_it_is(key: str, value: str) -> None:
    wrong = {**SOUND, key: value}
    assert len(refusals(wrong)) == 1
    assert len(refusals(wrong, before=SOUND)) == 1
    assert refusals({**wrong, "revision": "2"}, before=wrong) == [], "others can go on writing the object"


def test_the_policy_is_bound_and_stops_nobody_by_failing() -> None:
    assert BINDING["spec"] == {"policyName": POLICY["metadata"]["name"], "validationActions": ["Deny"]}
    assert POLICY["spec"]["failurePolicy"] == "Ignore"


def test_the_chart_installs_the_policy_if_asked_to() -> None:
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    objects = chart(VALUES["everything for the autoscaler"])
    assert [of_kind(objects, kind)[0]["spec"] for kind in kinds] == [POLICY["spec"], BINDING["spec"]]
    assert [of_kind(chart(()), kind) for kind in kinds] == [[], []]
