"""Turns: where both requests and ordinary pods want something, they are served in turns, loop by loop.

A request that is due is served even where pending pods would be made to wait, or the cluster is full: it may find room.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from windlass.engine import searching
from windlass.engine.provisioning import atomic, checking, classes, conditions, picking, refusing
from windlass.engine.provisioning.docket import Docket, count_by_request
from windlass.engine.provisioning.request import Request
from windlass.engine.scale_up import helping, proposing
from windlass.engine.time_limits import Step


def take_turns(
    docket: Docket,
    scene: atomic.Scene,
    helpless: Sequence[int],
    asked: Sequence[int],
    obstacle: helping.Helped | None,
    now_s: float,
) -> helping.Helped:
    """Help those whose turn it is. `asked` are rows of the picked request's pods, `helpless` those of ordinary ones.

    `obstacle`: why nothing is to be tried for pods, if so.
    """
    settings = scene.settings
    if obstacle is not None and not asked:
        return obstacle
    is_theirs = bool(asked) and (docket.is_next or not helpless)
    if settings.provisioning_requests.enable_provisioning_requests:
        docket.is_next = not is_theirs
    with scene.ledger.measure(Step.SCALE_UP):
        if is_theirs:
            helped = helping.Helped((_serve(docket, scene, asked, now_s),), was_tried=True)
        else:
            helped = helping.scale_up(
                scene.seen, scene.snapshot, helpless, scene.groups, settings, scene.rng, scene.ledger
            )
    return replace(helped, wait_for_more=obstacle is not None and obstacle.wait_for_more)


def _serve(docket: Docket, scene: atomic.Scene, asked: Sequence[int], now_s: float) -> proposing.Proposal:
    """What to do for the picked request or, where those are served together, for all that only ask for room."""
    chosen, snapshot = scene.settings.provisioning_requests, scene.snapshot
    picked = next(one for one in docket if one.key == docket.picked)
    scatter = None if scene.settings.deviations.tight_packing else scene.rng
    search = searching.Search(scatter=scatter)
    snapshot.fork()
    try:
        if picking.is_batched(chosen):
            batch: Sequence[Request] = picking.pick_batch(docket, chosen, now_s)
            imagined: Mapping[str, Sequence[int]] = {}
        else:
            batch = [picked] if classes.is_check_capacity(picked, docket.instance) else []
            imagined = {picked.key: asked}
        if batch:
            limit_s = chosen.check_capacity_provisioning_request_batch_timebox_s
            time = scene.ledger.begin("batch", limit_s)
            return proposing.Proposal(checking.check(docket, snapshot, batch, imagined, search, scene.settings, time))
        if picked.class_name != classes.ATOMIC:
            return proposing.Proposal(proposing.Result.NOT_TRIED)
        left = atomic.find_homeless(scene, asked, search)
        docket.note_places(snapshot, asked)
        if not left:
            docket.say(picked, conditions.FOUND, generation=False)
            return proposing.Proposal(proposing.Result.NOT_NEEDED)
        docket.ordering = picked.key
        return atomic.propose(scene, left)
    finally:
        snapshot.revert()


def close(docket: Docket, scene: atomic.Scene, first_row: int, helped: helping.Helped) -> helping.Helped:
    """What came of it, told of the request that was served; imagined pods, from `first_row` on, are told of nobody."""
    for proposal in helped.proposals:
        mine = [row for row in proposal.helped if row >= first_row]
        docket.helped += count_by_request(scene.snapshot, mine)
        unhelped = [row for one in proposal.remaining for row in one.rows if row >= first_row]
        docket.remaining += count_by_request(scene.snapshot, unhelped)
    if docket.ordering:
        proposal, saying = helped.proposals[0], conditions.ORDERED
        if proposal.result is not proposing.Result.SUCCESSFUL:
            why = refusing.explain_groups(proposal, scene.seen) if docket.says_why else ""
            saying = refusing.add(conditions.NOT_FOUND, why)
        docket.say(next(one for one in docket if one.key == docket.ordering), saying, generation=False)
    told = tuple(proposing.leave_out(one, first_row) for one in helped.proposals)
    return replace(helped, proposals=told)
