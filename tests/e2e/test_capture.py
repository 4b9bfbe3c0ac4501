"""A scenario of the real control plane: captured while it runs, from its recording, and from the kubeconfig alone."""

from pathlib import Path

import yaml

from tests.cli.run import windlass
from tests.e2e.scale_scenario import Scene


def test_what_was_captured_of_a_cluster_passes_its_own_checks(scene: Scene, tmp_path: Path) -> None:
    recording = tmp_path / "live.rec"
    scene.live.kill()
    scene.live.start(f"--record={recording}")
    group = scene.group("a", 1)
    group.wait_nodes(1)
    scene.live.wait_looped()
    scene.pods("web", 2, [group])
    scene.wait_running(2)
    scene.live.wait_looped(2)
    scene.scale_pods("web", 9)
    scene.wait_running(9)
    scene.live.wait_looped(2)
    running, recorded, moment, shared = (tmp_path / f"{name}.yaml" for name in ("run", "rec", "now", "shared"))
    address = f"127.0.0.1:{scene.live.port}"
    for words in (
        ("--address", address, "--out", running),
        ("--recording", recording, "--out", recorded),
        ("--kubeconfig", scene.live.kubeconfig, "--out", moment),
        ("--recording", recording, "--anonymise", "--out", shared),
    ):
        outcome = windlass("capture", *words)
        assert outcome.code == 0, outcome.err
    for path in (running, recorded):
        plain = yaml.safe_load(path.read_text())
        mine = next(one for one in plain["groups"] if one["name"] == group.name)
        assert (mine["max"], mine["capacity"]["cpu"]) == (9, 4)
        assert len(mine["boot"]) >= 2, "two nodes came"
        web = next(one for one in plain["workloads"] if one["name"] == f"{scene.name}-web")
        assert (web["requests"]["cpu"], web["replicas"]) == (1, 0)
        sizes = [step["to"] for step in plain["timeline"] if step["do"] == "scale" and step["workload"] == web["name"]]
        assert sizes == [2, 9]
    now = yaml.safe_load(moment.read_text())
    assert next(one for one in now["workloads"] if one["name"] == f"{scene.name}-web")["replicas"] == 9
    assert next(one for one in now["groups"] if one["name"] == group.name)["initial"] == 3
    assert scene.name not in shared.read_text()
    for path in (running, recorded, moment, shared):
        played = windlass("simulate", "--from", path, "--report", "", "--compare", "--scale-down-unneeded-time=1m")
        assert played.code == 0, played.out


def test_a_cluster_that_is_observed_for_a_time_is_left_as_it_is(scene: Scene, tmp_path: Path) -> None:
    group = scene.group("a", 1)
    group.wait_nodes(1)
    outcome = windlass("capture", "--kubeconfig", scene.live.kubeconfig, "--for", "8s", "--out", tmp_path / "a.yaml")
    assert outcome.code == 0, outcome.err
    assert group.name in (tmp_path / "a.yaml").read_text()
    assert group.replicas == 1
    assert windlass("simulate", "--from", tmp_path / "a.yaml", "--report", "").code == 0
