import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.engine import taints
from windlass.engine.cluster_state import readiness
from windlass.engine.model import facts
from windlass.engine.model.settings import TemplateSettings

NOW_S = 1_000_000.0
DEFAULT = taints.make_transient_taints(TemplateSettings())
READY = (facts.Condition("Ready", "True", 5.0),)

keys = st.sampled_from([
    "app", "team", taints.TO_BE_DELETED_KEY, taints.DELETION_CANDIDATE_KEY, "node.kubernetes.io/not-ready",
    "startup-taint.cluster-autoscaler.kubernetes.io/cni", "ignore-taint.cluster-autoscaler.kubernetes.io/cni",
    "status-taint.cluster-autoscaler.kubernetes.io/busy",
])  # fmt: skip
effects = st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
some_taints = st.lists(st.builds(facts.Taint, keys, st.just(""), effects), max_size=6).map(tuple)


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> facts.Taint:
    return facts.Taint(key, value, effect)


def node(*found: facts.Taint, unschedulable: bool = False) -> facts.Node:
    return facts.Node("n", taints=found, conditions=READY, created_s=3.0, unschedulable=unschedulable)


def test_marks_say_since_when_in_whole_seconds() -> None:
    assert taints.make_to_be_deleted(12.9) == facts.Taint("ToBeDeletedByClusterAutoscaler", "12", "NoSchedule")
    assert taints.make_deletion_candidate(12.9) == facts.Taint(
        "DeletionCandidateOfClusterAutoscaler", "12", "PreferNoSchedule"
    )


@pytest.mark.parametrize(
    ("value", "since_s"),
    [("1234", 1234.0), ("-5", -5.0), ("+5", 5.0), ("", None), ("soon", None), (" 5", None), ("1_000", None),
     ("9" * 30, None), ("5.0", None)],
)  # fmt: skip
def test_a_mark_that_is_not_a_number_of_seconds_tells_nothing(value: str, since_s: float | None) -> None:
    assert taints.marked_at_s(node(taint(taints.TO_BE_DELETED_KEY, value)), taints.TO_BE_DELETED_KEY) == since_s


def test_a_mark_counts_whatever_its_effect() -> None:
    marked = node(taint(taints.TO_BE_DELETED_KEY, "7", "NoExecute"))
    assert taints.has_taint(marked, taints.TO_BE_DELETED_KEY)
    assert taints.marked_at_s(marked, taints.TO_BE_DELETED_KEY) == 7.0


@pytest.mark.parametrize(("age_s", "expected"), [(0, True), (299, True), (300, False), (400, False), (-60, True)])
def test_a_node_is_being_deleted_for_five_minutes_from_its_mark(age_s: int, expected: bool) -> None:
    marked = node(taint(taints.TO_BE_DELETED_KEY, str(int(NOW_S) - age_s)))
    assert taints.is_being_deleted(marked, NOW_S) is expected


def test_a_node_without_a_readable_mark_is_not_being_deleted() -> None:
    assert not taints.is_being_deleted(node(), NOW_S)
    assert not taints.is_being_deleted(node(taint(taints.TO_BE_DELETED_KEY, "soon")), NOW_S)


@given(some_taints)
def test_templates_keep_only_lasting_taints_in_their_order(existing: tuple[facts.Taint, ...]) -> None:
    assert DEFAULT.strip(existing) == tuple(one for one in existing if one.key in ("app", "team"))


def test_conditions_are_stripped_from_templates() -> None:
    found = [taint(key) for key in (*sorted(taints.CONDITION_TAINTS), "dedicated")]
    assert taints.sanitize(node(*found), DEFAULT).taints == (taint("dedicated"),)


def test_what_needs_no_sanitising_stays_the_same_object() -> None:
    clean = node(taint("dedicated", "gpu"))
    assert taints.sanitize(clean, DEFAULT) is clean


def test_the_user_names_startup_and_status_taints() -> None:
    passing = taints.make_transient_taints(TemplateSettings(("cni",), ("readiness.k8s.io/",), ("busy",)))
    keys = ("cni", "readiness.k8s.io/cni", "busy", "cni-other")
    assert [passing.is_startup(key) for key in keys] == [True, True, False, False]
    assert [passing.is_status(key) for key in keys] == [False, False, True, False]
    assert passing.strip((taint("cni"), taint("readiness.k8s.io/x"), taint("busy"), taint("team"))) == (taint("team"),)


def test_a_node_with_a_startup_taint_is_not_ready_since_it_was_created() -> None:
    starting = DEFAULT.mark_starting(node(taint("startup-taint.cluster-autoscaler.kubernetes.io/cni")))
    node_readiness = readiness.assess_node(starting)
    assert (node_readiness.is_ready, node_readiness.since_s, node_readiness.reason) == (
        False,
        3.0,
        readiness.STARTUP_TAINT,
    )


@pytest.mark.parametrize(
    "left_alone",
    [
        node(),
        node(taint("status-taint.cluster-autoscaler.kubernetes.io/busy")),
        node(taint("startup-taint.cluster-autoscaler.kubernetes.io/cni"), unschedulable=True),
        facts.Node("n", taints=(taint("startup-taint.cluster-autoscaler.kubernetes.io/cni"),)),
    ],
    ids=["no taint", "status taint", "cordoned", "not ready anyway"],
)
def test_other_nodes_are_as_ready_as_they_say(left_alone: facts.Node) -> None:
    assert DEFAULT.mark_starting(left_alone) is left_alone
