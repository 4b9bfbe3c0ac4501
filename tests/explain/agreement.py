"""Does `explain` say of every pending pod and every node what the loop decided?

What the loop decided is read from the decision alone: its plan, its story and what it remembers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.engine.decide import builders
from windlass.engine.model import plan, scale_up_status
from windlass.engine.scale_up import options
from windlass.explain import cluster, explain_context, nodes, pods
from windlass.explain.nodes import NodeState
from windlass.explain.pods import PodExplanation, PodState
from windlass.explain.verdicts import GroupVerdict

NOT_ASKED = (
    PodState.TERMINATING, PodState.GATED, PodState.OTHER_SCHEDULER, PodState.NOT_JUDGED, PodState.PREEMPTING,
    PodState.EXPENDABLE, PodState.DAEMONSET, PodState.TOO_YOUNG,
)  # fmt: skip
PLACED = (PodState.HAS_ROOM, PodState.UPCOMING)
REFUSED = (PodState.NOWHERE, PodState.HELD, PodState.LATER)
AFTERWARDS = (options.FILTERED_OUT, options.EXECUTION_FAILED, options.NOT_WHOLE)
"""What is said of groups that had accepted the pod."""


def find_disagreements(at: explain_context.ExplainContext, counts: Counter[str]) -> Iterator[str]:
    """Sentences; none if explain and the loop agree. `counts`: of states that were told."""
    rows, states = at.snapshot.pending(), dict[int, PodState]()
    for row in rows:
        account = pods.explain_pod(at, row)
        states[row] = account.state
        counts[account.state] += 1
        for problem in _check_pod(at, row, account):
            yield f"pod {account.key} {account.state}: {problem}"
    counted = cluster.explain_cluster(at)
    told = sorted(state for one in counted.waiting for state in [one.state] * one.count)
    if told != sorted(states.values()):
        yield f"status counts {told}, explain {sorted(states.values())}"
    found = dict[str, int]()
    for node in at.observation.nodes:
        one = nodes.explain_node(at, node.name)
        found[one.state] = found.get(one.state, 0) + 1
        counts[one.state] += 1
        for problem in _check_node(at, one):
            yield f"node {one.name} {one.state}: {problem}"
    if found != dict(counted.node_states):
        yield f"status counts nodes as {counted.node_states}, explain as {found}"


# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_pod(at: explain_context.ExplainContext, row: int, account: PodExplanation) -> Iterator[str]:
    story = at.decision.story
    rounds = [
        one for one in story.scale_ups if one.choice is not None or one.remaining or one.considered or one.skipped
    ]
    helping = next((one for one in rounds if row in one.helped and one.increases), None)
    if (account.state is PodState.HELPED) != (helping is not None):
        yield f"helped by {helping and [one.group.id for one in helping.increases]}"
    if helping is not None and account.state is PodState.HELPED:
        yield from _check_helped(at, helping, account)
    ended = story.repairs.stop is not None  # then what is remembered is older
    place = None if ended else at.decision.memory.volatile.pending.hints.old.get(at.snapshot.pods.uids[row])
    if account.state is PodState.HAS_ROOM and account.node != place:
        yield f"is said to have room on {account.node}, and was placed on {place}"
    if account.state is PodState.UPCOMING and (place is None or account.group not in place):
        yield f"is said to wait for a node of {account.group}, and was placed on {place}"
    if place is not None and account.state not in (*PLACED, PodState.PREEMPTING, PodState.EXPENDABLE):
        yield f"was placed on {place}"
    if (account.state is PodState.USES_REQUEST) != (row in story.requests.ignored):
        yield f"ignored for a request: {row in story.requests.ignored}"
    results = {one.result for one in story.scale_ups}
    limited = scale_up_status.ScaleUpResult.LIMITED_BY_MAX_NODES_TOTAL in results
    if limited and account.state not in (PodState.MAX_NODES, *NOT_ASKED, *PLACED, PodState.USES_REQUEST):
        yield "the loop was limited by --max-nodes-total"
    if (account.state is PodState.LOOP_ENDED) and story.repairs.stop is None:
        yield "the loop did not end"
    refusing = [(one, alike) for one in rounds for alike in one.remaining if row in alike.rows]
    if refusing and helping is None and not limited:
        if account.state not in REFUSED:
            yield "the loop left it without a node"
        elif refusing[-1][0] is rounds[-1]:  # else what later rounds ordered may have changed the reasons
            yield from _check_reasons(*refusing[-1], account.groups)
    awaiting = bool(rounds) and row in rounds[-1].awaiting
    if awaiting and account.state not in (PodState.LATER, PodState.HELD):
        yield "another group could help it in a later loop"


def _check_helped(
    at: explain_context.ExplainContext, helping: scale_up_status.ScaleUpProposal, account: PodExplanation
) -> Iterator[str]:
    ordered = builders.sizes(at.decision)
    if account.choice is None or helping.choice is None or helping.choice.winner is None:
        yield "no choice is told"
        return
    if account.group != helping.choice.winner.group or account.choice.winner != account.group:
        yield f"the loop chose {helping.choice.winner.group}"
    if any(ordered.get(group, 0) < size for group, (_, size) in account.choice.sizes.items()):
        yield f"is told {account.choice.sizes}, ordered is {ordered}"
    chosen = next(one for one in account.groups if one.group == account.group)
    if not chosen.helps:
        yield f"the group that grows for it is said not to help: {chosen}"


def _check_reasons(
    proposal: scale_up_status.ScaleUpProposal, alike: scale_up_status.PodEquivalenceGroup, told: Sequence[GroupVerdict]
) -> Iterator[str]:
    """The same groups refuse for the same reasons."""
    by_group = {one.group: one for one in told}
    for group, said in alike.rejected.items():
        verdict = by_group[group]
        if said[0] in AFTERWARDS:
            if not verdict.fits:
                yield f"{group} would take it: {verdict.obstacles}"
        elif verdict.fits or sorted(verdict.obstacles[0].reasons) != sorted(said):
            yield f"{group} refused with {said}, told is {verdict.obstacles}"
    for group in alike.accepted:
        if not by_group[group].fits:
            yield f"{group} accepts it, told is {by_group[group].obstacles}"
    for group, reasons in proposal.skipped.items():
        holds = [one.reason for one in by_group[group].holds]
        missing = [one for one in reasons if one not in holds]
        if missing and not (scale_up_status.SkipReason.NOT_READY in reasons and by_group[group].holds):
            yield f"{group} was skipped: {reasons}, told is {holds}"


# ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_node(at: explain_context.ExplainContext, told: nodes.NodeExplanation) -> Iterator[str]:
    story, since = at.decision.story.scale_down, at.decision.memory.durable.scale_down.since
    going = {one.node for one in at.decision.plan if isinstance(one, plan.Drain)}
    leaving = told.name in at.memory.durable.drains
    if (told.state is NodeState.LEAVING) != leaving:
        yield f"on its way out: {leaving}"
    if (told.state is NodeState.GOING) != (told.name in going):
        yield f"going: {told.name in going}"
    if leaving or told.name in going or at.decision.story.repairs.stop is not None:
        return
    kept = {one.node_name: one for one in story.look.kept} if story.look else {}
    removable = {one.node_name for one in story.look.trials.removals} if story.look else set()
    if (told.state is NodeState.NEEDED) != (told.name in kept):
        yield f"kept: {kept.get(told.name)}"
    if told.name in kept and told.reason != kept[told.name].reason:
        yield f"kept for {kept[told.name].reason}, told is {told.reason}"
    if (told.state is NodeState.UNNEEDED) != (told.name in removable):
        yield f"removable: {told.name in removable}"
    if told.state is NodeState.UNNEEDED and told.since_s != since[told.name]:
        yield f"unneeded since {since[told.name]}, told is {told.since_s}"
    late = {one.node_name: one for one in story.choice.kept} if story.choice else {}
    if told.state is NodeState.UNNEEDED and told.name in late and told.reason != late[told.name].reason:
        yield f"stays for {late[told.name].reason}, told is {told.reason}"
