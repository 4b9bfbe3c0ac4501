"""What is told of a pod, by every rule: its name, what becomes of the pod, the reason and the sentence."""

import pytest

from tests.engine.drainability import builders
from tests.engine.drainability.strategies import SCRATCH, SYSTEM
from windlass.engine.drainability import rules
from windlass.engine.drainability.context import DrainContext, NodeDeleteOptions
from windlass.engine.model import facts, node_groups, well_known
from windlass.engine.model.drainability import BlockingPodReason, DrainabilityStatus, DrainAction


def marked(value: str) -> facts.Pod:
    return builders.pod(annotations={well_known.SAFE_TO_EVICT_ANNOTATION: value})


def ruled(behavior: facts.DrainBehavior) -> DrainContext:
    rule = node_groups.MachineDrainRule("capi", "rule", behavior)
    return builders.context(listed=False, drain_rules=builders.rules_on_n0(rule))


BARE = builders.context(listed=False)
COVERED = builders.context(listed=False, budgets=(builders.budget(0, app="web"),))
HEEDING = builders.context(listed=False, respect_machine_drain_rules=True)
UNREAD = builders.context(listed=False, drain_rules=builders.rules_on_n0(unreadable="capi/rule cannot be read"))
FEW = builders.context(facts.Controller("ReplicaSet", "default", "web", replicas=1), min_replicas=2)
LATE = {"deleted_s": builders.NOW_S - 1000}

SENTENCES = [
    (builders.pod(), UNREAD, "UnreadableDrainRules", "block", "UnreadableDrainRules",
     "may be the subject of a MachineDrainRule: capi/rule cannot be read"),
    (builders.pod(annotations={well_known.MIRROR_ANNOTATION: "m"}), BARE, "Mirror", "skip", None,
     "mirrors a static pod of the kubelet and goes with its node"),
    (builders.pod(**LATE), BARE, "LongTerminating", "skip", None,
     "has been terminating for longer than its grace period and counts as gone"),
    (builders.pod(unreadable="spec.x: found 1"), BARE, "Unreadable", "block", "UnreadablePod",
     "cannot be read in full: spec.x: found 1"),
    (builders.pod(), builders.context(), "ReplicaCount", "block", "ControllerNotFound",
     "is owned by ReplicaSet web, which does not exist: nothing would start the pod again"),
    (builders.pod(), FEW, "ReplicaCount", "block", "MinReplicasReached",
     "is one of 1 replicas that ReplicaSet web asks for, and pods of fewer than 2 are not moved"),
    (builders.pod(annotations={well_known.DO_NOT_DISRUPT_ANNOTATION: "true"}),
     builders.context(listed=False, respect_do_not_disrupt=True), "DoNotDisrupt", "block", "DoNotDisruptAnnotation",
     "is annotated karpenter.sh/do-not-disrupt=true"),
    (builders.owned("apps/v1", "DaemonSet"), BARE, "DaemonSet", "drain", None,
     "belongs to a DaemonSet and ends with its node"),
    (builders.pod(drain_behavior=facts.DrainBehavior.SKIP), HEEDING, "DrainLabel", "drain", None,
     "is labelled cluster.x-k8s.io/drain=skip: it is not evicted, and ends with its node"),
    (builders.pod(drain_behavior=facts.DrainBehavior.WAIT_COMPLETED), HEEDING,
     "DrainLabel", "wait_for_completion", None,
     "is labelled cluster.x-k8s.io/drain=wait-completed and is left to finish"),
    (builders.pod(), ruled(facts.DrainBehavior.SKIP), "MachineDrainRule", "drain", None,
     "is skipped by MachineDrainRule capi/rule: it is not evicted, and ends with its node"),
    (builders.pod(), ruled(facts.DrainBehavior.WAIT_COMPLETED), "MachineDrainRule",
     "wait_for_completion", None, "is left to finish by MachineDrainRule capi/rule"),
    (marked("true"), BARE, "SafeToEvict", "drain", None,
     "is annotated cluster-autoscaler.kubernetes.io/safe-to-evict=true"),
    (builders.pod(phase="Failed"), BARE, "Terminal", "drain", None, "has ended and will not be started again"),
    (marked("on-completion"), BARE, "OnCompletion", "wait_for_completion", None,
     "is annotated cluster-autoscaler.kubernetes.io/safe-to-evict=on-completion and is left to finish"),
    (builders.pod(owner=None), BARE, "Replicated", "block", "NotReplicated",
     "has no controller: nothing would start it again on another node"),
    (builders.owned("argoproj.io/v1", "Rollout"), BARE, "Replicated", "block", "NotReplicated",
     "is owned by Rollout web, which is not a controller of Kubernetes' own"),
    (builders.pod(namespace=SYSTEM), BARE, "System", "block", "UnmovableKubeSystemPod",
     "is a pod of kube-system that no disruption budget covers, not yet older than 3600 s"),
    (builders.pod(namespace=SYSTEM, created_s=builders.NOW_S - 3601), BARE, "System", "drain", None,
     "is a pod of kube-system without a disruption budget, older than 3600 s"),
    (marked("false"), BARE, "NotSafeToEvict", "block", "NotSafeToEvictAnnotation",
     "is annotated cluster-autoscaler.kubernetes.io/safe-to-evict=false"),
    (builders.pod(spec=SCRATCH), BARE, "LocalStorage", "block", "LocalStorageRequested",
     "keeps data on its node in volume scratch (emptyDir)"),
    (builders.pod(), COVERED, "PDB", "block", "NotEnoughPdb",
     "is covered by disruption budget covers, which allows no disruption now"),
]  # fmt: skip


def test_every_rule_has_its_sentence_here() -> None:
    """In the rules' order, so that one which is taken out or moved is missed."""
    told = [rule for _, _, rule, _, _, _ in SENTENCES]
    assert len(dict.fromkeys(told)) == len(rules.RULES)
    order = [
        next(rule for pod, context, rule, *_ in SENTENCES if _is_of(decide, pod, context)) for decide in rules.RULES
    ]
    assert order == list(dict.fromkeys(told))


def _is_of(decide: rules.DrainabilityRule, pod: facts.Pod, context: DrainContext) -> bool:
    return decide(pod, context) == rules.check_pod(pod, context) is not None


@pytest.mark.parametrize(("pod", "context", "rule", "action", "reason", "saying"), SENTENCES)
def test_what_is_told_of_a_pod(
    pod: facts.Pod, context: DrainContext, rule: str, action: str, reason: str | None, saying: str
) -> None:
    status = rules.check_pod(pod, context)
    assert status is not None
    assert (status.rule, status.action, status.reason) == (rule, action, reason)
    assert status.text(pod) == f"{pod.key} {saying}"


def test_reasons_are_spelled_as_those_who_count_by_them_expect() -> None:
    assert {*BlockingPodReason} == {reason for *_, reason, _ in SENTENCES if reason is not None} | {"UnexpectedError"}
    assert {*DrainAction} == {action for _, _, _, action, _, _ in SENTENCES}


def test_by_default_no_number_of_replicas_is_too_few() -> None:
    assert NodeDeleteOptions().min_replicas == 0


def test_outcomes_hold_what_decided() -> None:
    assert rules.check_pod(builders.pod(spec=SCRATCH), BARE) == DrainabilityStatus(
        "LocalStorage",
        DrainAction.BLOCK,
        "keeps data on its node in volume {} ({})",
        ("scratch", "emptyDir"),
        BlockingPodReason.LOCAL_STORAGE_REQUESTED,
    )
