"""The gRPC expander: an external server's response decides which options are best.

A decision makes no call. The response for exactly these options is part of the observation; where there is none yet,
all options pass, and `ExpanderResponses.question` says what to ask before deciding again.

    failed, or not asked        all options pass on to the next strategy
    no group                    none passes on
    some of the options         these pass on, in the server's order
    nothing but other groups    all options pass on
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.engine.model import facts, scale_up_status
from windlass.engine.model.scale_up_status import ExpansionOption, SchedulablePods

NOT_ASKED = "it was not asked"


@dataclass(frozen=True, slots=True)
class BestOptionsRequest:
    """What to ask: the options, the pods that each would help, and a new node of every group."""

    options: tuple[ExpansionOption, ...]
    pods: tuple[tuple[facts.Pod, ...], ...]
    """Of each option, one by one."""
    templates: Mapping[str, facts.Node]
    """By group: of all groups that there is a template of, options or not."""

    @property
    def about(self) -> tuple[scale_up_status.OptionKey, ...]:
        return make_option_keys(self.options)


@dataclass(slots=True)
class ExpanderResponses:
    """What one decision has to go by, and the first thing that it would need to know."""

    opinions: tuple[scale_up_status.BestOptionsResponse, ...] = ()
    question: BestOptionsRequest | None = None
    was_needed: bool = field(default=False, init=False)
    """Did anything depend on what someone outside says?"""

    def find_response(
        self, options: Sequence[ExpansionOption], ask: Callable[[], BestOptionsRequest]
    ) -> scale_up_status.BestOptionsResponse:
        """The opinion of these options. Without one, `ask` makes the question, and it was not asked."""
        self.was_needed = True
        about = make_option_keys(options)
        found = next((one for one in self.opinions if one.about == about), None)
        if found is not None:
            return found
        failure = next((one.failure for one in self.opinions if one.failure), "")
        if not failure and self.question is None:
            self.question = ask()
        return scale_up_status.BestOptionsResponse(about, failure=failure or NOT_ASKED)


@dataclass(frozen=True, slots=True)
class ExpanderClientPort:
    """Where questions are put: what is known already, and what they are made of."""

    inquiry: ExpanderResponses = field(default_factory=ExpanderResponses)
    templates: Mapping[str, facts.Node] = field(default_factory=dict)
    find_pods: Callable[[SchedulablePods], Sequence[facts.Pod]] = lambda helped: (helped.pod,) * helped.count
    """The pods that are helped, one by one."""

    def find_response(self, options: Sequence[ExpansionOption]) -> scale_up_status.BestOptionsResponse:
        return self.inquiry.find_response(options, lambda: self._ask(options))

    def _ask(self, options: Sequence[ExpansionOption]) -> BestOptionsRequest:
        pods = tuple(tuple(pod for helped in one.pods for pod in self.find_pods(helped)) for one in options)
        return BestOptionsRequest(tuple(options), pods, self.templates)


def make_option_keys(options: Sequence[ExpansionOption]) -> tuple[scale_up_status.OptionKey, ...]:
    """What options are known by."""
    return tuple(
        scale_up_status.OptionKey(
            one.group, one.node_count, tuple((helped.pod.key, helped.count) for helped in one.pods)
        )
        for one in options
    )


def find_best_options(options: Sequence[ExpansionOption], desk: ExpanderClientPort) -> list[ExpansionOption]:
    return apply_response(options, desk.find_response(options))


def apply_response(
    options: Sequence[ExpansionOption], opinion: scale_up_status.BestOptionsResponse
) -> list[ExpansionOption]:
    """The options that the opinion leaves."""
    if opinion.effect in (scale_up_status.ResponseEffect.FAILED, scale_up_status.ResponseEffect.NO_OPTION):
        return list(options)
    by_group = {option.group: option for option in options}
    return [by_group[group] for group in opinion.groups if group in by_group]
