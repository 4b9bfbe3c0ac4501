"""The user's own expander: what its answers are worth, and what is asked, without anybody being asked."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.expanders import builders
from tests.engine.loop import builders as loop_builders
from windlass.engine.expanders import chain, grpc
from windlass.engine.expanders.grpc import ExpanderClientPort, ExpanderResponses
from windlass.engine.model import facts, scale_up_status
from windlass.engine.model.scale_up_status import BestOptionsResponse, ExpansionOption, ResponseEffect
from windlass.engine.model.settings import Settings
from windlass.engine.observation import Observation
from windlass.engine.scale_up import options

OPTIONS = [
    builders.option("small", 4, builders.pods(4)),
    builders.option("large", 1, builders.pods(4)),
    builders.option("huge", 1, builders.pods(3)),
]
FAILED = "DeadlineExceeded: no answer within 5 s"


def choose(
    names: Sequence[str], *opinions: BestOptionsResponse, options: Sequence[ExpansionOption] = OPTIONS
) -> scale_up_status.ExpanderChoice[ExpansionOption]:
    client = ExpanderClientPort(ExpanderResponses(opinions))
    return chain.choose_option(options, names, chain.ExpanderContext(np.random.default_rng(0), client=client))


def print_line(*groups: str, about: Sequence[ExpansionOption] = OPTIONS, failure: str = "") -> BestOptionsResponse:
    return BestOptionsResponse(grpc.make_option_keys(about), groups, failure)


@pytest.mark.parametrize(
    ("answer", "kept", "worth"),
    [
        pytest.param(print_line("large"), ["large"], ResponseEffect.FOLLOWED, id="one of the options"),
        pytest.param(print_line("huge", "small"), ["huge", "small"], ResponseEffect.FOLLOWED, id="in its order"),
        pytest.param(
            print_line("small", "small", "huge"),
            ["small", "small", "huge"],
            ResponseEffect.FOLLOWED,
            id="as often as named",
        ),
        pytest.param(
            print_line("nowhere", "large", ""), ["large"], ResponseEffect.FOLLOWED, id="others are passed over"
        ),
        pytest.param(
            print_line("nowhere", "LARGE"), ["small", "large", "huge"], ResponseEffect.NO_OPTION, id="only others"
        ),
        pytest.param(
            print_line(""), ["small", "large", "huge"], ResponseEffect.NO_OPTION, id="an option without a group"
        ),
        pytest.param(print_line(), [], ResponseEffect.NONE_WANTED, id="none at all"),
        pytest.param(print_line(failure=FAILED), ["small", "large", "huge"], ResponseEffect.FAILED, id="no answer"),
    ],
)
def test_what_an_answer_leaves(answer: BestOptionsResponse, kept: list[str], worth: ResponseEffect) -> None:
    assert builders.groups(grpc.apply_response(OPTIONS, answer)) == kept
    assert answer.effect is worth


@pytest.mark.parametrize(
    ("names", "answer", "asked", "winners"),
    [
        pytest.param("grpc", print_line("large"), "grpc", {"large"}, id="it decides"),
        pytest.param("grpc,least-nodes", print_line("small", "huge"), "grpc,least-nodes", {"huge"}, id="it narrows"),
        pytest.param(
            "grpc,most-pods", print_line(failure=FAILED), "grpc,most-pods,random", {"small", "large"}, id="it fails"
        ),
        pytest.param(
            "grpc,most-pods", print_line("x"), "grpc,most-pods,random", {"small", "large"}, id="it talks nonsense"
        ),
        pytest.param("grpc,most-pods", print_line(), "grpc,most-pods,random", set(), id="it wants none"),
        pytest.param(
            "most-pods,grpc", print_line("small", about=OPTIONS[:2]), "most-pods,grpc", {"small"}, id="the second"
        ),
        pytest.param(
            "most-pods,grpc",
            print_line("huge", about=OPTIONS[:2]),
            "most-pods,grpc,random",
            {"small", "large"},
            id="it wants what was dropped before",
        ),
    ],
)
def test_its_turn_in_the_chain(names: str, answer: BestOptionsResponse, asked: str, winners: set[str]) -> None:
    choice = choose(names.split(","), answer)
    assert choice.opinion == answer
    assert [name for name, _ in choice.steps] == asked.split(",")
    if winners:
        assert choice.winner is not None
        assert choice.winner.group in winners
    else:
        assert choice.winner is None


def test_who_decides_before_it_leaves_nothing_to_ask() -> None:
    responses = ExpanderResponses()
    situation = chain.ExpanderContext(np.random.default_rng(0), client=ExpanderClientPort(responses))
    choice = chain.choose_option(OPTIONS, ["least-nodes", "most-pods", "grpc"], situation)
    assert choice.winner is OPTIONS[1]
    assert (choice.opinion, responses.question, responses.was_needed) == (None, None, False)


def test_a_single_option_is_asked_about_too_because_it_may_be_unwanted() -> None:
    only = OPTIONS[:1]
    assert choose(["grpc"], print_line(about=only), options=only).winner is None


def test_without_an_answer_all_options_pass_on_and_the_question_is_told() -> None:
    responses, templates = ExpanderResponses(), {"elsewhere": builders.node("elsewhere")}
    client = ExpanderClientPort(
        responses, templates, lambda helped: [facts.Pod("ns", f"p{n}") for n in range(helped.count)]
    )
    choice = chain.choose_option(
        OPTIONS, ["grpc", "most-pods"], chain.ExpanderContext(np.random.default_rng(0), client=client)
    )
    assert choice.steps[0] == ("grpc", tuple(OPTIONS))
    assert choice.opinion == print_line(failure=grpc.NOT_ASKED)
    asked = responses.question
    assert asked is not None
    assert (asked.options, asked.templates, asked.about) == (tuple(OPTIONS), templates, grpc.make_option_keys(OPTIONS))
    assert [[pod.name for pod in pods] for pods in asked.pods] == [["p0", "p1", "p2", "p3"]] * 2 + [["p0", "p1", "p2"]]


def test_an_answer_about_other_options_is_none() -> None:
    other = [replace(OPTIONS[0], node_count=5), *OPTIONS[1:]]
    choice = choose(["grpc"], print_line("large", about=other))
    assert choice.opinion == print_line(failure=grpc.NOT_ASKED)


def test_a_server_that_failed_is_not_asked_again_for_the_same_decision() -> None:
    responses = ExpanderResponses((print_line(failure=FAILED, about=OPTIONS[:2]),))
    opinion = ExpanderClientPort(responses).find_response(OPTIONS)
    assert opinion == print_line(failure=FAILED)
    assert responses.question is None


names = st.text("abc", max_size=2)


@given(builders.many_options, st.lists(names, max_size=6), st.sampled_from(["", FAILED]))
def test_whatever_it_answers_an_option_is_chosen_unless_it_wants_none(
    options: list[ExpansionOption], answered: list[str], failure: str
) -> None:
    opinion = print_line(*answered, about=options, failure=failure)
    kept = grpc.apply_response(options, opinion)
    assert all(any(one is option for option in options) for one in kept)
    assert bool(kept) == (bool(options) and opinion.effect is not ResponseEffect.NONE_WANTED)


# ── In a decision ────────────────────────────────────────────────────────────────────────────────────────────────


def asking(*expanders: str, base: Settings = loop_builders.WINDLASS) -> Settings:
    return loop_builders.choose(base, "scale_up", expander=expanders)


def waiting() -> Observation:
    pods = [loop_builders.pending(f"p{number}", 1000) for number in range(4)]
    return loop_builders.observe(
        [loop_builders.group("a"), loop_builders.group("b"), loop_builders.group("full", max_size=0)], (), pods
    )


@pytest.mark.parametrize("base", loop_builders.BOTH, ids=["cluster-autoscaler", "windlass"])
def test_a_decision_asks_about_its_options_their_pods_and_the_nodes_of_all_groups(base: Settings) -> None:
    decision = loop_builders.decide_once(waiting(), asking("grpc", "least-nodes", base=base))
    question = decision.question
    assert question is not None
    assert [(option.group, option.node_count) for option in question.options] == [("a", 1), ("b", 1)]
    assert [sorted(pod.name for pod in pods) for pods in question.pods] == [["p0", "p1", "p2", "p3"]] * 2
    assert set(question.templates) == {"a", "b", "full"}
    assert sum(loop_builders.sizes(decision).values()) == 1, "what happens without an answer is decided, too"


@pytest.mark.parametrize("group", ["a", "b"])
def test_a_decision_follows_an_answer_that_is_among_what_is_seen(group: str) -> None:
    observation, settings = waiting(), asking("grpc")
    question = loop_builders.decide_once(observation, settings).question
    assert question is not None
    decision = loop_builders.decide_once(
        replace(observation, opinions=(BestOptionsResponse(question.about, (group,)),)), settings
    )
    assert loop_builders.sizes(decision) == {group: 1}
    assert decision.question is None
    choice = decision.story.scale_ups[0].choice
    assert choice is not None
    assert choice.opinion == BestOptionsResponse(question.about, (group,))


def test_an_answer_that_wants_none_keeps_the_groups_as_they_are_and_pods_are_told() -> None:
    observation, settings = waiting(), asking("grpc", "random")
    question = loop_builders.decide_once(observation, settings).question
    assert question is not None
    decision = loop_builders.decide_once(
        replace(observation, opinions=(BestOptionsResponse(question.about),)), settings
    )
    assert not loop_builders.sizes(decision)
    (proposal,) = decision.story.scale_ups
    assert proposal.result is scale_up_status.ScaleUpResult.NO_OPTIONS
    assert {
        reason
        for equivalence_group in proposal.remaining
        for item in equivalence_group.rejected.values()
        for reason in item
    } == {options.FILTERED_OUT}


def test_what_someone_outside_says_stands_for_no_time_at_all() -> None:
    assert loop_builders.decide_once(waiting(), asking("grpc")).quiet_until_s == loop_builders.NOW_S


def test_every_round_of_a_joint_scale_up_asks_for_itself() -> None:
    """Small pods fit on either group, and are helped first; pods with a selector need the other."""
    picky = {"node_selector": (("disk", "ssd"),)}
    pods = [
        loop_builders.pending("plain", 3000),
        loop_builders.pending("picky", 3000, spec=picky, labels={"app": "picky"}),
    ]
    ssd = loop_builders.node("ssd-template", provider_id="", labels={"disk": "ssd"})
    observation = loop_builders.observe(
        [loop_builders.group("hdd"), loop_builders.group("ssd", template=ssd)], (), pods
    )
    settings = asking("grpc")
    asked: list[tuple[str, ...]] = []
    decision = loop_builders.decide_once(observation, settings)
    while decision.question is not None:
        groups = tuple(option.group for option in decision.question.options)
        asked.append(groups)
        answer = BestOptionsResponse(decision.question.about, (groups[0],))
        observation = replace(observation, opinions=(*observation.opinions, answer))
        decision = loop_builders.decide_once(observation, settings)
    assert asked == [("hdd", "ssd"), ("ssd",)]
    assert loop_builders.sizes(decision) == {"hdd": 1, "ssd": 1}


def test_a_failure_in_the_first_round_leaves_all_rounds_to_the_next_expander() -> None:
    pods = [loop_builders.pending(f"p{number}", 3000, labels={"app": f"a{number}"}) for number in range(3)]
    observation, settings = (
        loop_builders.observe([loop_builders.group("a", max_size=1), loop_builders.group("b")], (), pods),
        asking("grpc"),
    )
    question = loop_builders.decide_once(observation, settings).question
    assert question is not None
    decision = loop_builders.decide_once(
        replace(observation, opinions=(BestOptionsResponse(question.about, failure=FAILED),)), settings
    )
    assert decision.question is None
    assert sum(loop_builders.sizes(decision).values()) == 3
