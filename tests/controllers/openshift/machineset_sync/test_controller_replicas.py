"""Sizes: what the autoscaler writes to Cluster API holds, and no later administrator of the holder is undone."""

import pytest

from tests.controllers.openshift.faulty_transports import Interrupted, Losing
from tests.controllers.openshift.machineset_sync.machine_set_pairs import NAME, World, in_virtual_time, owners, play
from windlass.controllers.openshift.machine_apis import CLUSTER_API, MACHINE_API
from windlass.controllers.openshift.machineset_sync import model

MARK = (model.MANAGER, "Apply")


@in_virtual_time
async def test_a_scale_of_the_mirror_by_the_autoscaler_reaches_the_holder(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        await scene.scale(5)
        await scene.settle()
        assert await scene.sizes() == (5, 5)
        assert await scene.is_quiet()


@in_virtual_time
async def test_autoscaler_up_then_administrator_down(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        await scene.scale(5)
        await scene.settle()
        await scene.resize(2)
        await scene.settle()
        assert await scene.sizes() == (2, 2)
        await scene.scale(4)
        await scene.settle()
        assert await scene.sizes() == (4, 4)


@pytest.mark.parametrize("way", [[0], [0, 2], [3, 0, 0, 1], [0, 4, 0]])
def test_scale_to_and_from_zero(way: list[int]) -> None:
    async def story(scene: World) -> None:
        await scene.add_pair(replicas=3)
        async with scene.controlled():
            for size in way:
                await scene.scale(size)
                await scene.settle()
                assert await scene.sizes() == (size, size)
            await scene.resize(7)
            await scene.settle()
            assert await scene.sizes() == (7, 7)

    play(story)


@in_virtual_time
async def test_two_scales_between_passes_count_once(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        pass
    await scene.scale(9)
    await scene.scale(0)
    async with scene.controlled():
        assert await scene.sizes() == (0, 0)
    await scene.scale(5)
    await scene.scale(6)
    async with scene.controlled():
        assert await scene.sizes() == (6, 6)


@in_virtual_time
async def test_both_reach_one_size_by_themselves_and_the_next_administrator_is_not_undone(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        pass
    await scene.scale(5)
    await scene.resize(5)
    async with scene.controlled():
        await scene.resize(4)
        await scene.settle()
        assert await scene.sizes() == (4, 4)


@in_virtual_time
async def test_if_both_wrote_the_autoscaler_wins(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        pass
    await scene.scale(5)
    await scene.resize(2)
    async with scene.controlled():
        assert await scene.sizes() == (5, 5)


@in_virtual_time
async def test_what_anyone_else_writes_to_a_mirror_is_undone(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        await scene.resize(8, CLUSTER_API)
        await scene.settle()
        assert await scene.sizes() == (3, 3)


@in_virtual_time
async def test_where_cluster_api_holds_its_size_counts_whoever_wrote_it(scene: World) -> None:
    await scene.add_pair("ClusterAPI", replicas=3)
    async with scene.controlled():
        await scene.resize(6, CLUSTER_API)
        await scene.settle()
        assert await scene.sizes() == (6, 6)
        await scene.scale(0)
        await scene.settle()
        assert await scene.sizes() == (0, 0)
        await scene.resize(9, MACHINE_API)
        await scene.settle()
        assert await scene.sizes() == (0, 0)
        assert await scene.is_quiet()


@in_virtual_time
async def test_marks_are_on_both_and_hold_nothing_but_replicas(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        await scene.scale(5)
        await scene.settle()
    for api in (MACHINE_API, CLUSTER_API):
        found = await scene.get(api)
        assert MARK in owners(found, "spec", "replicas")
        (entry,) = [item for item in found["metadata"]["managedFields"] if (item["manager"], item["operation"]) == MARK]
        assert entry["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("marked", [True, False])
def test_a_copy_that_was_cut_short_is_finished_and_no_administrator_is_undone(after: int, marked: bool) -> None:
    async def story(scene: World) -> None:
        await scene.add_pair(replicas=3)
        async with scene.controlled():
            pass
        if not marked:
            await scene.resize(4)
            await scene.resize(3)
        await scene.scale(5)
        async with scene.controlled(lambda carrier: Losing(carrier, after)):
            await scene.settle(10.0)
            assert await scene.sizes() == (5, 5)
            await scene.resize(2)
            await scene.settle()
            assert await scene.sizes() == (2, 2)

    play(story)


@in_virtual_time
async def test_a_mirror_deleted_while_it_is_written_is_not_made_anew_by_the_writing(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        pass
    await scene.scale(5)

    async def delete() -> None:
        await scene.edit(MACHINE_API, {"metadata": {"finalizers": None}})
        await scene.api.delete(MACHINE_API.machine_sets(), NAME, MACHINE_API.namespace)

    async with scene.controlled(lambda carrier: Interrupted(carrier, "/machinesets/", delete)):
        await scene.settle(20.0)
        assert await scene.find(MACHINE_API) is None


@in_virtual_time
async def test_an_annotation_only_change_of_the_mirror_keeps_the_mark(scene: World) -> None:
    await scene.add_pair(replicas=3)
    async with scene.controlled():
        await scene.edit(MACHINE_API, {"metadata": {"annotations": {"a": "b"}, "labels": {"c": "d"}}})
        await scene.settle()
        assert (await scene.annotations(CLUSTER_API))["a"] == "b"
        assert MARK in owners(await scene.get(CLUSTER_API), "spec", "replicas")
