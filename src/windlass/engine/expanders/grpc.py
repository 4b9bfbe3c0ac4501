"""gRPC expander: the response of an external server decides which options are best.

A decision makes no call. The response for exactly these options is part of the observation. Without a response all
options are kept, and `ExpanderResponses.question` holds the request to send before the loop is decided again.

    failed, or not requested    all options are kept
    no group                    no option is kept
    some of the options         these are kept, in the server's order
    only other groups           all options are kept
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.engine.model import facts, scale_up_status
from windlass.engine.model.scale_up_status import ExpansionOption, SchedulablePods

NOT_ASKED = "it was not asked"


@dataclass(frozen=True, slots=True)
class BestOptionsRequest:
    """A BestOptions request: the options, the pods that each would schedule, and a new node of every group."""

    options: tuple[ExpansionOption, ...]
    pods: tuple[tuple[facts.Pod, ...], ...]
    """Of each option, each pod listed."""
    templates: Mapping[str, facts.Node]
    """By group: all groups that have a template, options or not."""

    @property
    def about(self) -> tuple[scale_up_status.OptionKey, ...]:
        return make_option_keys(self.options)


@dataclass(slots=True)
class ExpanderResponses:
    """The responses that one decision may use, and the first request whose response is missing."""

    opinions: tuple[scale_up_status.BestOptionsResponse, ...] = ()
    question: BestOptionsRequest | None = None
    was_needed: bool = field(default=False, init=False)
    """Whether a response was looked up: the decision depends on the external server."""

    def find_response(
        self, options: Sequence[ExpansionOption], make_request: Callable[[], BestOptionsRequest]
    ) -> scale_up_status.BestOptionsResponse:
        """The response for these options. If it is missing, records the request, and returns `NOT_ASKED` as failure."""
        self.was_needed = True
        about = make_option_keys(options)
        response = next((response for response in self.opinions if response.about == about), None)
        if response is not None:
            return response
        # After a failure in this loop no further request is made: the server would likely fail again.
        failure = next((response.failure for response in self.opinions if response.failure), "")
        if not failure and self.question is None:
            self.question = make_request()
        return scale_up_status.BestOptionsResponse(about, failure=failure or NOT_ASKED)


@dataclass(frozen=True, slots=True)
class ExpanderClientPort:
    """The port to the external expander: responses so far, and the parts of a request."""

    responses: ExpanderResponses = field(default_factory=ExpanderResponses)
    templates: Mapping[str, facts.Node] = field(default_factory=dict)
    find_pods: Callable[[SchedulablePods], Sequence[facts.Pod]] = lambda pods: (pods.pod,) * pods.count
    """The single pods of a pod group."""

    def find_response(self, options: Sequence[ExpansionOption]) -> scale_up_status.BestOptionsResponse:
        return self.responses.find_response(options, lambda: self._make_request(options))

    def _make_request(self, options: Sequence[ExpansionOption]) -> BestOptionsRequest:
        pods = tuple(tuple(pod for alike in option.pods for pod in self.find_pods(alike)) for option in options)
        return BestOptionsRequest(tuple(options), pods, self.templates)


def make_option_keys(options: Sequence[ExpansionOption]) -> tuple[scale_up_status.OptionKey, ...]:
    """The identities by which a response is matched to its options."""
    return tuple(
        scale_up_status.OptionKey(
            option.group, option.node_count, tuple((alike.pod.key, alike.count) for alike in option.pods)
        )
        for option in options
    )


def find_best_options(options: Sequence[ExpansionOption], client: ExpanderClientPort) -> list[ExpansionOption]:
    return apply_response(options, client.find_response(options))


def apply_response(
    options: Sequence[ExpansionOption], response: scale_up_status.BestOptionsResponse
) -> list[ExpansionOption]:
    """The options that the response keeps."""
    if response.effect in (scale_up_status.ResponseEffect.FAILED, scale_up_status.ResponseEffect.NO_OPTION):
        return list(options)
    by_group = {option.group: option for option in options}
    return [by_group[group] for group in response.groups if group in by_group]
