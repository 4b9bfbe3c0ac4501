"""Overlays: what kustomize makes of them is understood, confined, and entitled to what the code declares."""

import pytest

from handbook import copies, source
from tests.install import rendering
from tests.install.rendering import OVERLAYS, VALUES, chart, of_kind, overlay, read, rules, shipped


def test_what_is_copied_is_what_it_was_copied_from() -> None:
    stale = [str(path.relative_to(source.ROOT)) for path in copies.find_stale()]
    assert stale == [], "run `make reference` and commit what it writes"


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_process_understands_its_words_and_is_confined(name: str) -> None:
    objects = read(overlay(f"overlays/{name}"))
    found = list(rendering.containers(objects))
    assert found
    (expected,) = [each["securityContext"] for each in rendering.containers(chart(VALUES["the defaults"]))]
    for container in found:
        rendering.accept(container)
        assert container["securityContext"] == expected
        assert container["image"] == "windlass:0.1.0"
    accounts = {
        (each["metadata"]["namespace"], each["metadata"]["name"]) for each in of_kind(objects, "ServiceAccount")
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
    assert rules(read(overlay(f"overlays/{name}"))) == wanted


@pytest.mark.parametrize(("base", "choice"), [("base/autoscaler", "the defaults"), ("base/operator", "MachinePools")])
def test_pods_are_those_of_the_chart(base: str, choice: str) -> None:
    (ours,) = of_kind(read(overlay(base)), "Deployment")
    name = ours["metadata"]["name"]
    (theirs,) = [each for each in of_kind(chart(VALUES[choice]), "Deployment") if each["metadata"]["name"] == name]
    pods = [each["spec"]["template"]["spec"] for each in (ours, theirs)]
    del pods[1]["containers"][0]["imagePullPolicy"]  # kustomize leaves it to Kubernetes, which has the same default
    assert pods[0] == pods[1]
