"""What following and observing costs, and what happens where something may not be read."""

from tests.providers.clusterapi.management_cluster import Bed, enough, node, play
from windlass.engine.model import plan
from windlass.kube import transport

GROUPS = 200


def test_d11_observing_200_groups_asks_nobody() -> None:
    def arrange(bed: Bed) -> None:
        for i in range(GROUPS):
            bed.apply("FakeMachineTemplate", f"g{i}", status={"capacity": {"cpu": "2", "memory": "4Gi"}})
            bed.group(f"g{i}", i % 2)
            bed.members(f"g{i}", i % 2)

    async def scenario(bed: Bed) -> None:
        nodes = [node(f"g{i}-0") for i in range(1, GROUPS, 2)]
        assert len(await bed.observe(nodes)) == GROUPS
        sent = len(bed.carrier.sent)
        for _ in range(5):
            assert len(await bed.observe(nodes)) == GROUPS
        assert len(bed.carrier.sent) == sent

    play(scenario, arrange)


def test_d11_a_template_kind_is_looked_up_and_followed_once() -> None:
    def arrange(bed: Bed) -> None:
        for i in range(GROUPS):
            bed.group(f"g{i}", 0, annotations=enough())

    async def scenario(bed: Bed) -> None:
        await bed.settle()
        followed = [request for request in bed.carrier.sent if request.path.endswith("/fakemachinetemplates")]
        assert len(followed) == 1
        assert bed.carrier.calls.count("GET /apis") == 2
        assert len(bed.carrier.calls) == 4  # two lookups: of Cluster API, and of the kind

    play(scenario, arrange)


def test_d12_a_template_kind_that_may_not_be_read_keeps_nobody_waiting() -> None:
    def arrange(bed: Bed) -> None:
        bed.carrier.forbid("GET", "/fakemachinetemplates")
        bed.apply("OtherMachineTemplate", "other", status={"capacity": {"cpu": "2", "memory": "4Gi"}})
        bed.group("told", 0, annotations=enough())
        bed.group("untold", 0)
        bed.group("other", 0, refers_to="OtherMachineTemplate")
        bed.group("running", 1)

    async def scenario(bed: Bed) -> None:
        assert [id.rpartition("/")[2] for id in await bed.observe()] == ["other", "running", "told"]
        (complaint,) = bed.provider.observe([]).set_aside
        assert complaint.name == "default/untold"
        assert "403" in str(complaint.found)
        assert "403" in bed.provider.trouble["FakeMachineTemplate"]

    play(scenario, arrange)


def test_d12_a_right_that_is_granted_later_brings_the_groups_back() -> None:
    def arrange(bed: Bed) -> None:
        bed.carrier.forbid("GET", "/fakemachinetemplates")
        bed.apply("FakeMachineTemplate", "g", status={"capacity": {"cpu": "2", "memory": "4Gi"}})
        bed.group("g", 0)

    async def scenario(bed: Bed) -> None:
        assert await bed.observe() == {}
        bed.carrier.allow()
        await bed.clock.sleep(60.0)
        assert list(await bed.observe()) == ["MachineDeployment/default/g"]
        assert bed.provider.trouble == {}

    play(scenario, arrange)


def test_d12_a_template_kind_that_the_server_does_not_have_or_cannot_convert_keeps_nobody_waiting() -> None:
    def arrange(bed: Bed) -> None:
        bed.carrier.forbid("GET", "/fakemachinetemplates", 500, "InternalError")
        bed.group("unknown", 1, refers_to="NoSuchTemplate")
        bed.group("broken", 1)

    async def scenario(bed: Bed) -> None:
        assert len(await bed.observe()) == 2
        assert bed.provider.trouble.keys() == {"NoSuchTemplate", "FakeMachineTemplate"}

    play(scenario, arrange)


def test_pools_that_may_not_be_read_keep_nobody_waiting() -> None:
    def arrange(bed: Bed) -> None:
        bed.carrier.forbid("GET", "/machinepools")
        bed.group("p", 1, kind="MachinePool")
        bed.group("g", 1)

    async def scenario(bed: Bed) -> None:
        assert list(await bed.observe()) == ["MachineDeployment/default/g"]
        assert "403" in bed.provider.trouble["MachinePool"]

    play(scenario, arrange)


def test_a_kind_that_only_fixed_groups_refer_to_is_not_asked_for() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("fixed", 1, None)

    async def scenario(bed: Bed) -> None:
        await bed.settle()
        assert not any("infrastructure" in call for call in bed.carrier.calls)

    play(scenario, arrange)


def test_a_server_that_is_not_there_yet_is_asked_again() -> None:
    def arrange(bed: Bed) -> None:
        bed.carrier.forbid("GET", "/apis", 503, "ServiceUnavailable")
        bed.group("g", 1)
        bed.recover_after(20.0)

    async def scenario(bed: Bed) -> None:
        assert list(await bed.observe()) == ["MachineDeployment/default/g"]

    play(scenario, arrange)


# ── Rights ───────────────────────────────────────────────────────────────────────────────────────────────────────

RIGHTS = {
    ("follow", "machinedeployments"),
    ("follow", "machinesets"),
    ("follow", "machinepools"),
    ("follow", "machines"),
    ("follow", "fakemachinetemplates"),
    ("GET", "machinedeployments/scale"),
    ("PATCH", "machinedeployments/scale"),
    ("GET", "machines"),
    ("PUT", "machines"),
}
"""What Cluster Autoscaler may do in a management cluster; following is listing and watching."""
OPTIONAL = {("follow", "machinedrainrules"), ("follow", "clusters")}
"""Where it is refused, there are no MachineDrainRules."""


def test_no_more_rights_are_needed_than_cluster_autoscaler_has() -> None:
    def arrange(bed: Bed) -> None:
        for _, resource in OPTIONAL:
            bed.carrier.forbid("GET", f"/{resource}")
        bed.group("g", 4)
        bed.members("g", 3)
        bed.machine("g-1", "g-1", node=False)
        bed.machine("g-2", "g-1", marked=True)

    async def scenario(bed: Bed) -> None:
        group = "MachineDeployment/default/g"
        await bed.provider.reduce_target(plan.ReduceTarget(group, 1, "", 4))
        await bed.provider.delete_nodes(group, [node("g-0")])
        await bed.provider.delete_instances(plan.DeleteInstances(group, ("fake:///g-1",), ""))
        await bed.provider.resize(plan.Resize(group, 1, 3, 10))
        asked = {
            _name_right(request)
            for request in bed.carrier.sent
            if "/v1beta" in request.path and request.path.count("/") > 3
        }
        assert asked == RIGHTS | OPTIONAL

    play(scenario, arrange)


def _name_right(request: transport.Request) -> tuple[str, str]:
    """What was done, to which resource."""
    parts = request.path.split("/")[4:]
    if "namespaces" not in parts:
        return "follow", parts[0]
    _, _, resource, _, *subresource = parts
    return request.method, "/".join([resource, *subresource])


def test_a_management_cluster_that_does_not_answer_is_away_and_comes_back() -> None:
    def arrange(bed: Bed) -> None:
        bed.group("g", 1)

    async def scenario(bed: Bed) -> None:
        assert bed.provider.unavailable_reason == ""
        bed.carrier.forbid("GET", "/machinepools", 503, "ServiceUnavailable")
        await bed.clock.sleep(900.0)  # every watch has ended and was asked for anew
        assert bed.provider.trouble.keys() == {"MachinePool"}
        assert bed.provider.unavailable_reason == "", "others can be read"
        bed.carrier.forbid("GET", "/apis/cluster.x-k8s.io/", 503, "ServiceUnavailable")
        await bed.clock.sleep(900.0)
        assert "503" in bed.provider.unavailable_reason
        bed.carrier.allow()
        await bed.clock.sleep(60.0)
        assert bed.provider.unavailable_reason == ""

    play(scenario, arrange)
