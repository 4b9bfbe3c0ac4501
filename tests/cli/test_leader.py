"""`status` and `explain` ask the leader through the API server, and decide here where they cannot."""

import json
from pathlib import Path

import pytest

from tests.cli import api_server
from tests.cli.run import windlass

# The embedded server is told of clients that end their watches while it writes to them.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
HERE = "decided here instead, without acting\n"


def test_the_leader_is_found_by_its_lease_and_asked_with_the_token_of_its_secret(tmp_path: Path) -> None:
    with api_server.serving(tmp_path) as server:
        server.elect("autoscaler-0_f00")
        server.run_leader("autoscaler-0", "--address=:9085")
        outcome = windlass("status", "--kubeconfig", server.kubeconfig, "-o", "json")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out)["at_s"] == api_server.DECIDED_S
    assert server.proxied == ["autoscaler-0:9085 /statusz"]


def test_what_the_leader_does_not_know_is_not_found(tmp_path: Path) -> None:
    with api_server.serving(tmp_path) as server:
        server.elect("autoscaler-0_f00")
        server.run_leader("autoscaler-0", "--tls-cert-file=/etc/tls.crt")
        outcome = windlass("explain", "pod", "web-1", "-n", "shop", "--kubeconfig", server.kubeconfig)
    assert (outcome.code, outcome.err) == (1, "windlass: there is no pod shop/web-1\n")
    assert server.proxied == ["https:autoscaler-0:8085 /explain/pod/shop/web-1"]


def test_a_token_that_is_given_goes_before_the_one_of_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_TOKEN", "another-token-of-some-length")
    with api_server.serving(tmp_path, token="another-token-of-some-length") as server:
        server.elect("autoscaler-0_f00")
        server.run_leader("autoscaler-0")
        assert windlass("status", "--kubeconfig", server.kubeconfig).err == ""


def test_without_a_leader_that_can_be_asked_the_decision_is_made_here(tmp_path: Path) -> None:
    with api_server.serving(tmp_path, token="a-token-that-nobody-has") as server:
        said = []
        ran = [windlass("status", "--kubeconfig", server.kubeconfig)]
        server.elect("autoscaler-0_f00")
        ran.append(windlass("status", "--kubeconfig", server.kubeconfig))
        server.run_leader("autoscaler-0")
        ran.append(windlass("status", "--kubeconfig", server.kubeconfig))
        ran.append(windlass("status", "--kubeconfig", server.kubeconfig, "--expander=price"))
        said = [outcome.err for outcome in ran]
    assert [outcome.code for outcome in ran] == [0, 0, 0, 0]
    assert all("There is no node group." in outcome.out for outcome in ran)
    assert said[0] == f"windlass: no Lease cluster-autoscaler names a leader; {HERE}"
    assert said[1].startswith("windlass: the leader is autoscaler-0_f00 of no pod in kube-system: ")
    assert said[2].startswith("windlass: kube-system/autoscaler-0 cannot be asked through the API server: ")
    assert said[3] == "", "with flags that change decisions no leader is asked"


def test_one_of_several_leases_has_to_be_named(tmp_path: Path) -> None:
    with api_server.serving(tmp_path) as server:
        for namespace in ("blue", "green"):
            server.add("/api/v1/namespaces", {"metadata": {"name": namespace}})
            server.elect("a_1", namespace)
        said = windlass("status", "--kubeconfig", server.kubeconfig).err
        named = windlass("status", "--kubeconfig", server.kubeconfig, "--namespace=blue").err
    assert "there are Leases cluster-autoscaler in blue, green: name one with --namespace" in said
    assert "the leader is a_1 of no pod in blue" in named
