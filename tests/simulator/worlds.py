"""Small worlds for tests: a group or two, a workload, and time that passes when told to."""

from typing import Any

from windlass import clock
from windlass.simulator.world import edit, kinds
from windlass.simulator.world.chance import Delay
from windlass.simulator.world.groups import Group
from windlass.simulator.world.kinds import Kind
from windlass.simulator.world.kubelets import RUN, START, STOP, spell_delay
from windlass.simulator.world.world import World

Json = dict[str, Any]
NOON_S = 1_767_614_400.0
BOOT_S, SETTLE_S, STOP_S = 60.0, 5.0, 10.0


def group(name: str = "general", zone: str = "a", **changes: Any) -> Group:
    """Machines with four cores and 16 GiB; two of them are there."""
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    given: Json = {"min_size": 0, "max_size": 20, "initial": 2, "capacity": amounts, "allocatable": amounts}
    return Group(name, name, zone, **{**given, "boot": Delay(BOOT_S), **changes})


def make(*groups: Group, seed: int = 1) -> World:
    """A world that has begun, with nothing in it but its machines."""
    world = World(clock.Virtual(NOON_S), groups or (group(),), seed)
    world.found()
    world.begin()
    return world


def pass_time(world: World, until_s: float) -> None:
    """Let time pass until so many seconds after the beginning."""
    world.clock.run(world.pulse.run(until_s))


def template(app: str, cpu: str = "1", *, run_s: float | None = None, **spec: Any) -> Json:
    """Pods that take two seconds to start and one to stop."""
    annotations = {START: spell_delay(Delay(2.0)), STOP: spell_delay(Delay(1.0))}
    if run_s is not None:
        annotations[RUN] = spell_delay(Delay(run_s))
    containers = [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    return {
        "metadata": {"labels": {"app": app}, "annotations": annotations},
        "spec": {"containers": containers, **spec},
    }


def deploy(world: World, app: str, replicas: int, cpu: str = "1", kind: Kind = kinds.DEPLOYMENTS, **spec: Any) -> None:
    """A Deployment, or another workload with a selector."""
    said: Json = {"selector": {"matchLabels": {"app": app}}, "template": template(app, cpu, **spec)}
    if kind != kinds.DAEMON_SETS:
        said["replicas"] = replicas
    if kind == kinds.STATEFUL_SETS:
        said["serviceName"] = app
    world.api.post(kind, {"metadata": {"name": app, "namespace": "default"}, "spec": said})


def budget(world: World, app: str, **limit: Any) -> None:
    spec = {"selector": {"matchLabels": {"app": app}}, **limit}
    world.api.post(kinds.BUDGETS, {"metadata": {"name": app, "namespace": "default"}, "spec": spec})


def scale(world: World, kind: Kind, name: str, replicas: int) -> None:
    """As a client does it: by a patch of the scale."""
    path = f"{world.api.path_of(kind, 'default')}/{name}"
    found = world.api.request("GET", path + "/scale")
    found["spec"]["replicas"] = replicas
    world.api.request("PUT", path + "/scale", found)


def pods(world: World, app: str = "") -> list[Json]:
    """Of an app, or all; in the order of their making."""
    found = world.api.all(kinds.PODS).values()
    return [pod for pod in found if not app or pod["metadata"].get("labels", {}).get("app") == app]


def running(world: World, app: str = "") -> list[Json]:
    return [pod for pod in pods(world, app) if edit.is_ready(pod) and not edit.is_deleting(pod)]


def nodes(world: World, *, only_ready: bool = True) -> list[str]:
    return [name for name, node in world.api.all(kinds.NODES).items() if edit.is_ready(node) or not only_ready]


def machines(world: World) -> dict[str, Json]:
    return {edit.key_of(one): one for one in world.api.all(kinds.MACHINES).values()}
