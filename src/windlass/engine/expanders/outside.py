"""Outside: the options that someone outside likes best, a server that the user wrote (`grpc` in --expander).

A decision asks nobody. What the server answers is a fact of the observation, like any other: its `Opinion` of exactly
these options. Where there is none yet, the decision passes all options on, and says what should be asked first
(`Inquiry.question`); whoever can ask does, adds the answer to the observation, and decides again.

    failed, or not asked        all options pass on to the next strategy
    no group                    none passes on: nothing is chosen
    some of the options         these pass on, in the server's order, as often as it names them
    nothing but other groups    all options pass on: such an answer means nothing

A server that failed once is not asked again for the same decision: what hangs would hang every time.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from windlass.engine import facts
from windlass.engine.expanders.option import Helped, Option

NOT_ASKED = "it was not asked"


@dataclass(frozen=True, slots=True)
class Offer:
    """What makes an option the same option: its group, its nodes, and the pods that it helps."""

    group: str
    nodes: int
    pods: tuple[tuple[str, int], ...] = ()
    """The first pod of each kind, as namespace/name, and how many there are."""


class Worth(enum.StrEnum):
    """What an answer is good for."""

    FOLLOWED = "followed"
    NONE_WANTED = "none wanted"
    NO_OPTION = "no option"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Opinion:
    """What was answered about these options, or why there is no answer."""

    about: tuple[Offer, ...]
    groups: tuple[str, ...] = ()
    """Ids as the server named them, in its order; not all need be options."""
    failure: str = ""

    @property
    def unknown(self) -> tuple[str, ...]:
        """Groups that it names and that nobody asked about, each once."""
        asked = {offer.group for offer in self.about}
        return tuple(dict.fromkeys(group for group in self.groups if group not in asked))

    @property
    def worth(self) -> Worth:
        if self.failure:
            return Worth.FAILED
        if not self.groups:
            return Worth.NONE_WANTED
        asked = {offer.group for offer in self.about}
        return Worth.NO_OPTION if asked.isdisjoint(self.groups) else Worth.FOLLOWED


@dataclass(frozen=True, slots=True)
class Question:
    """What to ask: the options, the pods that each would help, and a new node of every group."""

    options: tuple[Option, ...]
    pods: tuple[tuple[facts.Pod, ...], ...]
    """Of each option, one by one."""
    templates: Mapping[str, facts.Node]
    """By group: of all groups that there is a template of, options or not."""

    @property
    def about(self) -> tuple[Offer, ...]:
        return describe(self.options)


@dataclass(slots=True)
class Inquiry:
    """What one decision has to go by, and the first thing that it would need to know."""

    opinions: tuple[Opinion, ...] = ()
    question: Question | None = None
    was_needed: bool = field(default=False, init=False)
    """Did anything depend on what someone outside says?"""

    def consult(self, options: Sequence[Option], ask: Callable[[], Question]) -> Opinion:
        """The opinion of these options. Without one, `ask` makes the question, and it was not asked."""
        self.was_needed = True
        about = describe(options)
        found = next((one for one in self.opinions if one.about == about), None)
        if found is not None:
            return found
        failure = next((one.failure for one in self.opinions if one.failure), "")
        if not failure and self.question is None:
            self.question = ask()
        return Opinion(about, failure=failure or NOT_ASKED)


@dataclass(frozen=True, slots=True)
class Desk:
    """Where questions are put: what is known already, and what they are made of."""

    inquiry: Inquiry = field(default_factory=Inquiry)
    templates: Mapping[str, facts.Node] = field(default_factory=dict)
    find_pods: Callable[[Helped], Sequence[facts.Pod]] = lambda helped: (helped.pod,) * helped.count
    """The pods that are helped, one by one."""

    def consult(self, options: Sequence[Option]) -> Opinion:
        return self.inquiry.consult(options, lambda: self._ask(options))

    def _ask(self, options: Sequence[Option]) -> Question:
        pods = tuple(tuple(pod for helped in one.pods for pod in self.find_pods(helped)) for one in options)
        return Question(tuple(options), pods, self.templates)


def describe(options: Sequence[Option]) -> tuple[Offer, ...]:
    """What options are known by."""
    return tuple(
        Offer(one.group, one.node_count, tuple((helped.pod.key, helped.count) for helped in one.pods))
        for one in options
    )


def keep(options: Sequence[Option], desk: Desk) -> list[Option]:
    return follow(options, desk.consult(options))


def follow(options: Sequence[Option], opinion: Opinion) -> list[Option]:
    """The options that the opinion leaves."""
    if opinion.worth in (Worth.FAILED, Worth.NO_OPTION):
        return list(options)
    by_group = {option.group: option for option in options}
    return [by_group[group] for group in opinion.groups if group in by_group]
