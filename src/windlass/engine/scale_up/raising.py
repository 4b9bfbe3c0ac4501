"""Raising groups: what was proposed becomes instructions, and is remembered as asked for.

What the provider refused when this very observation was decided on before is known: the group that refused backs off,
and what hung on it is not done.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from windlass.engine import backoff, plan, requests
from windlass.engine.memory import Durable
from windlass.engine.observation import Observation
from windlass.engine.scale_down import cooldown
from windlass.engine.scale_up import balancing, proposing
from windlass.engine.settings import Settings, for_group

Proposals = tuple[proposing.Proposal, ...]


@dataclass(frozen=True, slots=True)
class Raising:
    """The increases of one loop."""

    seen: Observation
    settings: Settings
    now_s: float
    orders: list[plan.Instruction] = field(default_factory=list)
    """What is to be done, in order."""

    def carry_out(self, proposals: Proposals, durable: Durable, is_atomic: bool) -> tuple[Proposals, Durable]:
        """Order what is proposed. A refusal that is known ends it, and the group that refused backs off.

        Groups are raised one after another up to the first that refuses; with --parallel-scale-up all of a round are
        tried. Where one loop serves pods that need different groups, a refusal concerns none but the group itself.
        What is atomic is done for all groups of a proposal or for none.
        """
        refused, joint = self.seen.refused, self.settings.deviations.joint_scale_up
        for number, proposal in enumerate(proposals):
            if not any(increase.group.id in refused for increase in proposal.increases):
                durable = self._grow(proposal.increases, durable)
                continue
            came_out, durable = self._meet_refusal(proposal, durable, is_atomic)
            if not joint:
                return (*proposals[:number], came_out), durable
            proposals = (*proposals[:number], came_out, *proposals[number + 1 :])
        return proposals, durable

    def _meet_refusal(
        self, proposal: proposing.Proposal, durable: Durable, is_atomic: bool
    ) -> tuple[proposing.Proposal, Durable]:
        """What is left of a proposal of which some group could not be raised. No pause begins."""
        refused = self.seen.refused
        ids = [increase.group.id for increase in proposal.increases]
        refusing = [group for group in ids if group in refused]
        if self.settings.deviations.joint_scale_up or self.settings.scale_up.parallel_scale_up:
            failed = set(refusing)
        else:
            failed, refusing = set(ids[ids.index(refusing[0]) :]), refusing[:1]
        if is_atomic:
            self._take_back(one for one in proposal.increases if one.group.id not in failed)
            failed = set(ids)
        came_out = proposing.fail(proposal, failed)
        durable = replace(self._grow(came_out.increases, durable), activity=durable.activity)
        backoffs = durable.health.backoffs
        for group in refusing:
            backoffs = backoff.fail(backoffs, group, refused[group], self.now_s, self.settings.health)
        return came_out, replace(durable, health=replace(durable.health, backoffs=backoffs))

    def _take_back(self, raised: Iterable[balancing.Increase]) -> None:
        """All or nothing: what was raised before another group refused is lowered again."""
        why = "another group of an atomic scale-up could not be raised"
        self.orders.extend(plan.TakeBack(one.group.id, one.added, why, one.new_size) for one in raised)

    def _grow(self, increases: Sequence[balancing.Increase], durable: Durable) -> Durable:
        """Order these increases, and remember that they were asked for."""
        if not increases:
            return durable
        asked = durable.health.requests
        activities = dict(durable.activities)
        options = {group.id: group.options for group in self.seen.groups}
        for increase in increases:
            group = increase.group
            self.orders.append(plan.Resize(group.id, group.size, increase.new_size, group.max_size))
            wait_s = for_group(self.settings, options[group.id]).max_node_provision_time_s
            asked = requests.grow(asked, group.id, increase.added, self.now_s, wait_s)
            activities[group.id] = replace(activities.get(group.id, cooldown.Activity()), added_s=self.now_s)
        return replace(
            durable,
            health=replace(durable.health, requests=asked),
            activity=replace(durable.activity, added_s=self.now_s),
            activities=activities,
        )
