"""Commands that observe a cluster once: which API server they ask, and what they say where it does not answer."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cli.run import windlass


def write_kubeconfig(path: Path, **clusters: Mapping[str, object]) -> Path:
    """A kubeconfig with a context for each cluster, of which the first is the current one."""
    config = {
        "current-context": next(iter(clusters)),
        "contexts": [{"name": name, "context": {"cluster": name}} for name in clusters],
        "clusters": [{"name": name, "cluster": cluster} for name, cluster in clusters.items()],
    }
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("command", [("plan",), ("status",), ("explain", "pod", "a")])
def test_a_server_that_refuses_connections_is_one_line(command: tuple[str, ...], tmp_path: Path) -> None:
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", work={"server": "https://127.0.0.1:1"})
    ran = windlass(*command, f"--kubeconfig={kubeconfig}")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "windlass: the API server cannot be used: GET /version: cannot connect to 127.0.0.1:1: Connection refused\n"
    )


def test_a_server_that_is_silent_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"http://127.0.0.1:{silent.getsockname()[1]}"
        kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", work={"server": place})
        ran = windlass("plan", f"--kubeconfig={kubeconfig}", "--request-timeout=300ms")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == (
        "windlass: the API server gave no answer within 0.3 s (--request-timeout); is the address of the kubeconfig "
        "right, and does it take a VPN?\n"
    )


def test_the_context_is_the_one_that_is_named(tmp_path: Path) -> None:
    servers = {name: {"server": f"https://127.0.0.1:{port}"} for name, port in (("work", 1), ("other", 2))}
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", **servers)
    assert "127.0.0.1:1:" in windlass("plan", f"--kubeconfig={kubeconfig}").err
    assert "127.0.0.1:2:" in windlass("plan", f"--kubeconfig={kubeconfig}", "--context=other").err
    assert windlass("plan", f"--kubeconfig={kubeconfig}", "--context=none").err == (
        f"windlass: kubeconfig {kubeconfig}: context: found 'none', expected one of other, work\n"
    )


def test_a_certificate_is_left_unchecked_only_where_that_is_said(tmp_path: Path) -> None:
    cluster = {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig", work=cluster)
    refused = windlass("plan", f"--kubeconfig={kubeconfig}").err
    assert "expected certificate-authority, or --insecure-skip-tls-verify for a test cluster" in refused
    assert "Connection refused" in windlass("plan", f"--kubeconfig={kubeconfig}", "--insecure-skip-tls-verify").err
