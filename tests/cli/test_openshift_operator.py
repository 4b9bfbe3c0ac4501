"""`cluster-autoscaler-operator`: a Deployment of OpenShift's operator, with windlass' image."""

from typing import Any

import pytest

from tests.controllers.openshift import controller_harness, real_objects
from windlass import cli, clock, errors
from windlass.cli import openshift_operator
from windlass.controllers import operator_process, rbac
from windlass.controllers.lattice import model as lattice
from windlass.controllers.openshift.cluster_autoscaler import model as cluster_autoscaler
from windlass.kube import resources


def words(*arguments: str, **environment: str) -> list[str]:
    return openshift_operator.operator_words(arguments, environment)


def parse(found: list[str]) -> dict[str, Any]:
    """What the command line of `windlass` makes of them."""
    _, bound, _ = cli.app.parse_args(found, exit_on_error=False, print_error=False)
    return dict(bound.arguments)


def environment_of(container: dict[str, Any], namespace: str) -> dict[str, str]:
    """As the kubelet sets it; fields are those of the pod's namespace."""
    return {item["name"]: item.get("value", namespace) for item in container["env"]}


@real_objects.needed
def test_the_deployment_of_openshift_needs_another_image_and_nothing_else() -> None:
    found = real_objects.read("install/07_deployment.yaml")
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert container["command"] == [openshift_operator.PROGRAM]
    environment = environment_of(container, found["metadata"]["namespace"])
    assert parse(words(*container["args"], **environment)) == {
        "controllers": "cluster_autoscaler,machine_autoscaler",
        "leader_elect_namespace": "openshift-machine-api",
        "leader_elect_name": "cluster-autoscaler-operator-leader",
        "metrics_address": ":9192",
        "metrics_cert_dir": "/etc/cluster-autoscaler-operator/tls",
        "webhook_address": ":8443",
        "webhook_cert_dir": "/etc/cluster-autoscaler-operator/tls",
    }


def test_defaults_are_those_of_openshift() -> None:
    assert parse(words()) == parse(
        words(
            LEADER_ELECTION="true",
            LEADER_ELECTION_ID=rbac.OPENSHIFT_OPERATOR_LEASE,
            LEADER_ELECTION_NAMESPACE="openshift-machine-api",
            WEBHOOKS_ENABLED="T",
            WEBHOOKS_PORT="8443",
            WEBHOOKS_CERT_DIR="/etc/cluster-autoscaler-operator/tls",
            METRICS_PORT="8080",
            WATCH_NAMESPACE="openshift-machine-api",
        )
    )


def test_each_variable_has_its_effect() -> None:
    found = parse(words(LEADER_ELECTION="False", WEBHOOKS_ENABLED="0", METRICS_PORT="1", LEADER_ELECTION_ID="own"))
    assert found["leader_elect"] is False
    assert (found["metrics_address"], found["leader_elect_name"]) == (":1", "own")
    assert "webhook_address" not in found
    found = parse(words(WEBHOOKS_PORT="2", WEBHOOKS_CERT_DIR="/d", LEADER_ELECTION_NAMESPACE="n"))
    assert (found["webhook_address"], found["webhook_cert_dir"], found["metrics_cert_dir"]) == (":2", "/d", "/d")
    assert found["leader_elect_namespace"] == "n"


def test_flags_of_klog_are_accepted_and_those_of_windlass_passed_on() -> None:
    found = parse(words("-alsologtostderr", "--logtostderr=true", "-v=4", "--kube-api-qps=7"))
    assert (found["verbosity"], found["kube_api_qps"]) == (4, 7.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("WATCH_NAMESPACE", "other"),
        ("CLUSTER_AUTOSCALER_NAMESPACE", "other"),
        ("CLUSTER_AUTOSCALER_NAME", "other"),
        ("LEADER_ELECTION", "maybe"),
        ("WEBHOOKS_ENABLED", ""),
    ],
)
def test_what_cannot_be_served_is_refused_by_name_and_value(name: str, value: str) -> None:
    with pytest.raises(errors.InvalidInput, match=f"{name}: found '{value}', expected"):
        words(**{name: value})


def test_the_image_variable_reaches_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTER_AUTOSCALER_IMAGE", "registry.example/windlass:1")
    assert parse(words())["openshift_autoscaler_image"] == "registry.example/windlass:1"


# The image of the autoscaler


def fill(image: str, pod: str, names: str = "cluster_autoscaler") -> str:
    """The image that is deployed by a process in the pod of that name."""
    time = clock.VirtualClock(0.0)
    settings = operator_process.OperatorSettings(
        cluster_autoscaler=cluster_autoscaler.ClusterAutoscalerSettings(image=image),
        lattice=lattice.LatticeSettings(autoscaler_image=image),
    )

    async def story() -> str:
        scene = controller_harness.Scene(time)
        await scene.api.create(resources.NAMESPACES.untyped(), {"metadata": {"name": "n"}})
        spec = {"containers": [{"name": "c", "image": "registry.example/windlass:1.2"}]}
        await scene.api.create(resources.PODS.untyped(), {"metadata": {"name": "operator-1"}, "spec": spec}, "n")
        filled = await operator_process.fill_autoscaler_image(names, settings, scene.api, ("n", pod))
        return filled.lattice.autoscaler_image if names == "lattice" else filled.cluster_autoscaler.image

    return time.run(story())


@pytest.mark.parametrize("names", ["cluster_autoscaler", "lattice"])
def test_the_autoscaler_runs_the_image_of_the_operators_own_pod(names: str) -> None:
    assert fill("", "operator-1", names) == "registry.example/windlass:1.2"
    assert fill("set:1", "operator-1", names) == "set:1"
    assert fill("", "", names) == "windlass:latest"
    assert fill("", "operator-1", "machine_autoscaler") == ""


def test_a_pod_that_cannot_be_read_ends_the_start_with_what_to_do() -> None:
    with pytest.raises(errors.InvalidInput, match="--openshift-autoscaler-image is not set, and pod n/other cannot be"):
        fill("", "other")
