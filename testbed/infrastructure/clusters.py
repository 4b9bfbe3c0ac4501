"""FakeCluster and FakeMachineTemplate: both are as they should be as soon as they exist."""

from urllib import parse

from testbed.infrastructure import nodes
from testbed.infrastructure.world import Object, World


async def look_after_cluster(world: World, cluster: Object) -> float:
    """Its endpoint is the API server that it is declared in."""
    if cluster.get("status", {}).get("initialization", {}).get("provisioned"):
        return 0.0
    server = parse.urlsplit(world.api.server)
    endpoint = {"host": server.hostname, "port": server.port}
    await world.patch("fakeclusters", cluster, {"spec": {"controlPlaneEndpoint": endpoint}})
    await world.patch("fakeclusters", cluster, {"status": {"initialization": {"provisioned": True}}}, "status")
    return 0.0


_TELLS = "fake.infrastructure/tells"
"""On a template: `capacity`, and nothing else, as providers do that know no nodeInfo."""


async def look_after_template(world: World, template: Object) -> float:
    """Says what a machine will be like, for scaling from zero."""
    spec = template["spec"]["template"].get("spec", {})
    status = {"capacity": nodes.capacity(spec), "nodeInfo": nodes.SYSTEM}
    if template["metadata"].get("annotations", {}).get(_TELLS) == "capacity":
        del status["nodeInfo"]
    if template.get("status") != status:
        await world.patch("fakemachinetemplates", template, {"status": status}, "status")
    return 0.0
