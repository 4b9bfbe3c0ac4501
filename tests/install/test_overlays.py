"""Overlays: what kustomize makes of them is understood, confined, and entitled to what the code declares."""

import pytest

from tests.install import rendered_manifests
from tests.install.rendered_manifests import OVERLAYS, VALUES, chart, of_kind, overlay, read, rules, shipped
from tools import manifest_copies, source_analysis


def test_what_is_copied_is_what_it_was_copied_from() -> None:
    stale = [str(path.relative_to(source_analysis.ROOT)) for path in manifest_copies.find_stale()]
    assert stale == [], "run `make reference` and commit what it writes"


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_process_understands_its_words_and_is_confined(name: str) -> None:
    objects = read(overlay(f"overlays/{name}"))
    found = list(rendered_manifests.containers(objects))
    assert found
    (expected,) = [item["securityContext"] for item in rendered_manifests.containers(chart(VALUES["the defaults"]))]
    for container in found:
        rendered_manifests.accept(container)
        assert container["securityContext"] == expected
        assert container["image"] == "windlass:0.1.0"
    accounts = {
        (entry["metadata"]["namespace"], entry["metadata"]["name"]) for entry in of_kind(objects, "ServiceAccount")
    }
    for deployment in of_kind(objects, "Deployment"):
        spec = deployment["spec"]["template"]["spec"]
        assert (deployment["metadata"]["namespace"], spec["serviceAccountName"]) in accounts


RIGHTS = {
    "cluster-api": ("autoscaler", "autoscaler-clusterapi"),
    "eks-anywhere": ("autoscaler", "autoscaler-clusterapi", "operator", "eks-anywhere"),
    "lattice": ("operator", "lattice", "lattice-deploy-autoscaler"),
    "openshift": (
        "cluster-autoscaler-operator",
        "machine-autoscaler",
        "machineset-sync",
        "cluster-autoscaler",
        "cluster-autoscaler-machine-api",
        "cluster-autoscaler-priority-expander",
        "cluster-autoscaler-provisioning-requests",
    ),
}


@pytest.mark.parametrize("name", OVERLAYS)
def test_rights_are_those_that_the_code_declares(name: str) -> None:
    wanted: dict[tuple[str, str], set[str]] = {}
    for (account, where), granted in rules(shipped(*RIGHTS[name])).items():
        # One process runs both controllers of OpenShift's operator.
        account = account.replace("/machine-autoscaler", "/cluster-autoscaler-operator")
        wanted.setdefault((account, where), set()).update(granted)
    given = rules(read(overlay(f"overlays/{name}")))
    scraping = {key for key in given if key[0] == "openshift-monitoring/prometheus-k8s"}
    for key in scraping:  # OpenShift's own Prometheus, which reads where to scrape
        assert all('"verbs": ["get", "list", "watch"]' in rule for rule in given.pop(key))
    assert given == wanted


@pytest.mark.parametrize(("base", "choice"), [("base/autoscaler", "the defaults"), ("base/operator", "MachinePools")])
def test_pods_are_those_of_the_chart(base: str, choice: str) -> None:
    (ours,) = of_kind(read(overlay(base)), "Deployment")
    name = ours["metadata"]["name"]
    (theirs,) = [item for item in of_kind(chart(VALUES[choice]), "Deployment") if item["metadata"]["name"] == name]
    pods = [entry["spec"]["template"]["spec"] for entry in (ours, theirs)]
    del pods[1]["containers"][0]["imagePullPolicy"]  # kustomize leaves it to Kubernetes, which has the same default
    assert pods[0] == pods[1]


SAME = {"cluster-api": "the defaults", "eks-anywhere": "EKS Anywhere", "lattice": "Lattice", "openshift": "OpenShift"}
"""Overlays, and the choice of chart values that they correspond to."""


_OPENSHIFT = ("cluster-autoscaler-operator", "machineset-sync")
DIFFERING = {
    # The choice of values sets what the overlay leaves to its user.
    ("openshift", "cluster-autoscaler-operator", "openshift_release_version"),
    # Values name the image of the autoscaler; of the overlay it is that of the operator's pod, whatever sets that.
    ("openshift", "cluster-autoscaler-operator", "openshift_autoscaler_image"),
    ("openshift", "cluster-autoscaler-operator", "env"),
    ("lattice", "windlass-operator", "lattice_autoscaler_image"),
    ("lattice", "windlass-operator", "env"),
    # The overlay has OpenShift's own ports, and certificates of its service CA.
    *(("openshift", name, option) for name in _OPENSHIFT for option in ("metrics_address", "metrics_cert_dir")),
    ("openshift", "cluster-autoscaler-operator", "webhook_cert_dir"),
}
"""Overlay, process and option."""


@pytest.mark.parametrize("name", SAME)
def test_overlays_and_chart_run_the_same_processes_with_the_same_options(name: str) -> None:
    ours = rendered_manifests.options(read(overlay(f"overlays/{name}")))
    theirs = rendered_manifests.options(chart(VALUES[SAME[name]]))
    assert ours.keys() == theirs.keys()
    differing = {
        (name, process, option)
        for process, options in ours.items()
        for option in options.keys() | theirs[process].keys()
        if options.get(option) != theirs[process].get(option)
    }
    assert differing == {one for one in DIFFERING if one[0] == name}


def test_openshifts_prometheus_finds_the_alerts_about_the_operators_alone() -> None:
    """A ClusterAutoscaler brings the autoscaler's, and a cluster may have none."""
    (rule,) = of_kind(read(overlay("overlays/openshift")), "PrometheusRule")
    assert rule["metadata"]["namespace"] == "openshift-machine-api"
    assert [group["name"] for group in rule["spec"]["groups"]] == ["windlass.operator"]
    found = {alert["alert"] for alert in rule["spec"]["groups"][0]["rules"]}
    assert {"WindlassMachineAutoscalerNotReady", "WindlassMachineSetNotSynchronized"} <= found


def test_no_policy_rejects_requests_for_want_of_objects_it_is_about() -> None:
    """A policy with a paramKind and `Fail` locks what it matches wherever that kind is not served or cannot be listed:
    all MachineSets of Machine API, on a cluster without Cluster API."""
    policies = [
        body
        for path in sorted((source_analysis.ROOT / "deploy" / "policies").glob("*.yaml"))
        for body in of_kind(read(path.read_text()), "ValidatingAdmissionPolicy")
    ]
    parametrized = [body["spec"] for body in policies if "paramKind" in body["spec"]]
    assert parametrized
    assert {spec["failurePolicy"] for spec in parametrized} == {"Ignore"}
