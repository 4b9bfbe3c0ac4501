"""A pair of MachineSets called `set` that the MachineAutoscaler `ma` is about, and what becomes of both."""

import contextlib
from collections.abc import AsyncIterator

from tests.controllers.openshift.controller_harness import Between, nothing
from tests.controllers.openshift.openshift_cluster import Cluster
from windlass.controllers import controller_interface, controller_runtime
from windlass.controllers.openshift import machine_apis
from windlass.controllers.openshift.machine_autoscaler import controller
from windlass.controllers.openshift.machine_autoscaler.model import MachineAutoscalerSettings

MACHINE_API, CLUSTER_API = machine_apis.MACHINE_APIS
CAPI_V1BETA1, CAPI_V1BETA2 = "cluster.x-k8s.io/v1beta1", "cluster.x-k8s.io/v1beta2"
READY = ("True", "MachineAutoscalerReady", "MachineAutoscaler ready for autoscaling")
DUPLICATE = (
    "False",
    "MachineAutoscalerDuplicateTargetScaleRef",
    "targetScaleRef has multiple MachineAutoscaler owners",
)


def make(site: controller_runtime.ControllerContext) -> controller_interface.Controller:
    return controller.new_controller(site, MachineAutoscalerSettings())


def bounds(api: machine_apis.MachineApi, owner: str = "ma", least: int = 1, most: int = 12) -> dict[str, str]:
    owned = {machine_apis.OWNER_ANNOTATION: f"openshift-machine-api/{owner}"}
    return {**owned, api.min_size: str(least), api.max_size: str(most)}


@contextlib.asynccontextmanager
async def paired(scene: Cluster, authority: str = "MachineAPI", between: Between = nothing) -> AsyncIterator[None]:
    """The pair `set`, held by an API, and the controller at work."""
    await scene.add_pair("set", authority)
    async with scene.controlled(make, between=between):
        yield


@contextlib.asynccontextmanager
async def autoscaled(scene: Cluster, authority: str = "MachineAPI", between: Between = nothing) -> AsyncIterator[None]:
    """The same, and `ma` that names it in Machine API."""
    async with paired(scene, authority, between):
        await scene.autoscale("ma", "set")
        yield
