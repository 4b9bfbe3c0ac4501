"""Does `explain` say of every pending pod and every node what the loop decided?

What the loop decided is read from the decision alone: its plan, its story and what it remembers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from tests.engine.loop import builders
from windlass.engine.model import plan, scale_up_status
from windlass.engine.scale_up import options
from windlass.explain import cluster, explain_context, nodes, pods
from windlass.explain.decision_view import PodState, RemovalState
from windlass.explain.pods import PodExplanation
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
    pod_states = sorted(
        state for pending_pods in counted.waiting for state in [pending_pods.state] * pending_pods.count
    )
    if pod_states != sorted(states.values()):
        yield f"status counts {pod_states}, explain {sorted(states.values())}"
    found = dict[str, int]()
    for node in at.observation.nodes:
        node_explanation = nodes.explain_node(at, node.name)
        found[node_explanation.state] = found.get(node_explanation.state, 0) + 1
        counts[node_explanation.state] += 1
        for problem in _check_node(at, node_explanation):
            yield f"node {node_explanation.name} {node_explanation.state}: {problem}"
    if found != dict(counted.node_states):
        yield f"status counts nodes as {counted.node_states}, explain as {found}"


# ── Pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_pod(at: explain_context.ExplainContext, row: int, account: PodExplanation) -> Iterator[str]:
    story = at.decision.story
    rounds = [
        proposal
        for proposal in story.scale_ups
        if proposal.choice is not None or proposal.remaining or proposal.considered or proposal.skipped
    ]
    helping = next((one for one in rounds if row in one.helped and one.increases), None)
    if (account.state is PodState.HELPED) != (helping is not None):
        yield f"helped by {helping and [increase.group.id for increase in helping.increases]}"
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
    chosen = next(group_verdict for group_verdict in account.groups if group_verdict.group == account.group)
    if not chosen.helps:
        yield f"the group that grows for it is said not to help: {chosen}"


def _check_reasons(
    proposal: scale_up_status.ScaleUpProposal,
    alike: scale_up_status.PodEquivalenceGroup,
    group_verdicts: Sequence[GroupVerdict],
) -> Iterator[str]:
    """The same groups refuse for the same reasons."""
    by_group = {group_verdict.group: group_verdict for group_verdict in group_verdicts}
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
        holds = [scale_up_blocker.reason for scale_up_blocker in by_group[group].holds]
        missing = [item for item in reasons if item not in holds]
        if missing and not (scale_up_status.SkipReason.NOT_READY in reasons and by_group[group].holds):
            yield f"{group} was skipped: {reasons}, told is {holds}"


# ── Nodes ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_node(at: explain_context.ExplainContext, node_explanation: nodes.NodeExplanation) -> Iterator[str]:
    story, since = at.decision.story.scale_down, at.decision.memory.durable.scale_down.since
    going = {instruction.node for instruction in at.decision.plan if isinstance(instruction, plan.Drain)}
    leaving = node_explanation.name in at.memory.durable.drains
    if (node_explanation.state is RemovalState.LEAVING) != leaving:
        yield f"on its way out: {leaving}"
    if (node_explanation.state is RemovalState.GOING) != (node_explanation.name in going):
        yield f"going: {node_explanation.name in going}"
    if leaving or node_explanation.name in going or at.decision.story.repairs.stop is not None:
        return
    kept = {unremovable.node_name: unremovable for unremovable in story.look.kept} if story.look else {}
    removable = {removal.node_name for removal in story.look.trials.removals} if story.look else set()
    if (node_explanation.state is RemovalState.NEEDED) != (node_explanation.name in kept):
        yield f"kept: {kept.get(node_explanation.name)}"
    if node_explanation.name in kept and node_explanation.reason != kept[node_explanation.name].reason:
        yield f"kept for {kept[node_explanation.name].reason}, told is {node_explanation.reason}"
    if (node_explanation.state is RemovalState.UNNEEDED) != (node_explanation.name in removable):
        yield f"removable: {node_explanation.name in removable}"
    if node_explanation.state is RemovalState.UNNEEDED and node_explanation.since_s != since[node_explanation.name]:
        yield f"unneeded since {since[node_explanation.name]}, told is {node_explanation.since_s}"
    late = (
        {unremovable_node.node_name: unremovable_node for unremovable_node in story.choice.kept} if story.choice else {}
    )
    if (
        node_explanation.state is RemovalState.UNNEEDED
        and node_explanation.name in late
        and node_explanation.reason != late[node_explanation.name].reason
    ):
        yield f"stays for {late[node_explanation.name].reason}, told is {node_explanation.reason}"
