"""Small worlds for tests: a group or two, a workload, and time that passes when told to."""

from typing import Any

from windlass import clock
from windlass.simulator.cluster import api_client
from windlass.simulator.cluster.api_client import GroupResource
from windlass.simulator.cluster.node_groups import DelayDistribution, NodeGroup
from windlass.simulator.cluster.node_lifecycle import RUN, START, STOP, format_delay
from windlass.simulator.cluster.simulated_cluster import SimulatedCluster

Json = dict[str, Any]
NOON_S = 1_767_614_400.0
BOOT_S, SETTLE_S, STOP_S = 60.0, 5.0, 10.0


def group(name: str = "general", zone: str = "a", **changes: Any) -> NodeGroup:
    """Machines with four cores and 16 GiB; two of them are there."""
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    given: Json = {"min_size": 0, "max_size": 20, "initial": 2, "capacity": amounts, "allocatable": amounts}
    return NodeGroup(name, name, zone, **{**given, "boot": DelayDistribution(BOOT_S), **changes})


def make(*groups: NodeGroup, seed: int = 1) -> SimulatedCluster:
    """A world that has begun, with nothing in it but its machines."""
    world = SimulatedCluster(clock.VirtualClock(NOON_S), groups or (group(),), seed)
    world.create()
    world.start()
    return world


def pass_time(world: SimulatedCluster, until_s: float) -> None:
    """Let time pass until so many seconds after the beginning."""
    world.clock.run(world.event_loop.run(until_s))


def template(app: str, cpu: str = "1", *, run_s: float | None = None, **spec: Any) -> Json:
    """Pods that take two seconds to start and one to stop."""
    annotations = {START: format_delay(DelayDistribution(2.0)), STOP: format_delay(DelayDistribution(1.0))}
    if run_s is not None:
        annotations[RUN] = format_delay(DelayDistribution(run_s))
    containers = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {"containers": containers, **spec},
    }


def deploy(
    world: SimulatedCluster,
    app: str,
    replicas: int,
    cpu: str = "1",
    kind: GroupResource = api_client.DEPLOYMENTS,
    **spec: Any,
) -> None:
    """A Deployment, or another workload with a selector."""
    said: Json = {"selector": {"matchLabels": {"app": app}}, "template": template(app, cpu, **spec)}
    if kind != api_client.DAEMON_SETS:
        said["replicas"] = replicas
    if kind == api_client.STATEFUL_SETS:
        said["serviceName"] = app
    world.api.post(kind, {"metadata": {"name": app, "namespace": "default"}, "spec": said})


def budget(world: SimulatedCluster, app: str, **limit: Any) -> None:
    spec = {"selector": {"matchLabels": {"app": app}}, **limit}
    world.api.post(api_client.BUDGETS, {"metadata": {"name": app, "namespace": "default"}, "spec": spec})


def scale(world: SimulatedCluster, kind: GroupResource, name: str, replicas: int) -> None:
    """As a client does it: by a patch of the scale."""
    path = f"{world.api.path_of(kind, 'default')}/{name}"
    found = world.api.request("GET", path + "/scale")
    found["spec"]["replicas"] = replicas
    world.api.request("PUT", path + "/scale", found)


def pods(world: SimulatedCluster, app: str = "") -> list[Json]:
    """Of an app, or all; in the order of their making."""
    found = world.api.list_objects(api_client.PODS).values()
    return [pod for pod in found if not app or pod["metadata"].get("labels", {}).get("app") == app]


def running(world: SimulatedCluster, app: str = "") -> list[Json]:
    return [pod for pod in pods(world, app) if api_client.is_ready(pod) and not api_client.is_deleting(pod)]


def nodes(world: SimulatedCluster, *, only_ready: bool = True) -> list[str]:
    return [
        name
        for name, node in world.api.list_objects(api_client.NODES).items()
        if api_client.is_ready(node) or not only_ready
    ]


def machines(world: SimulatedCluster) -> dict[str, Json]:
    return {api_client.key_of(item): item for item in world.api.list_objects(api_client.MACHINES).values()}
