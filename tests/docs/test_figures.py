"""Figures in prose are those of the code: defaults of flags that a sentence names, and constants that it does not."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.docs import test_alerts
from tools import events_reference
from windlass.autoscaler import actuator, memory_store
from windlass.autoscaler.capacity_apis import buffer_templates
from windlass.autoscaler.grpc_expander import client
from windlass.autoscaler.options import flags, process_options
from windlass.cli.operator import operator
from windlass.controllers.eks_anywhere import reconcile
from windlass.controllers.lattice import model
from windlass.controllers.machine_pool import model as machine_pool
from windlass.controllers.openshift.cluster_autoscaler import reconcile as cluster_autoscaler_reconcile
from windlass.controllers.openshift.machineset_sync import controller
from windlass.engine import quarantine, taints
from windlass.engine.actuation import eviction, node_deletion
from windlass.engine.capacity_apis import provisioning_request_queue
from windlass.engine.model import deviations, settings
from windlass.engine.scale_up import pending_pods
from windlass.kube import informers, time_formats
from windlass.observability import decision_events, reporter
from windlass.providers.clusterapi import delete_annotations as clusterapi_deletion
from windlass.providers.clusterapi import informers as clusterapi_informers
from windlass.providers.clusterapi import scale_client
from windlass.runtime import http_listener
from windlass.simulator.cluster import node_lifecycle, workloads
from windlass.simulator.scenario import model as scenario_model
from windlass.sweep import executors

DOCS = Path(__file__).parents[2] / "docs"
_NUMBERS = {
    "a": 1.0, "an": 1.0, "one": 1.0, "two": 2.0, "three": 3.0, "four": 4.0, "five": 5.0, "ten": 10.0, "fifteen": 15.0,
    "twenty": 20.0, "half a": 0.5, "half an": 0.5, "a fifth of a": 0.2,
}  # fmt: skip
_UNITS = {
    "ms": 0.001,
    "s": 1.0,
    "second": 1.0,
    "seconds": 1.0,
    "min": 60.0,
    "minute": 60.0,
    "minutes": 60.0,
    "hour": 3600.0,
}
_WORDS, _NAMES = ("|".join(sorted(words, key=len, reverse=True)) for words in (_NUMBERS, _UNITS))
_COUNT = re.compile(rf"(?i)(\d+|{_WORDS})\b")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_DURATION = re.compile(rf"(?i)\b(\d+(?:\.\d+)?(?= ?[a-z])|(?:{_WORDS})(?= )) ?({_NAMES})\b")

WINDOW_S = deviations.ALL_DEVIATIONS.quiet_window_s
GROUP = settings.GroupDefaults()
BACKOFF = settings.Settings().health
LEASE = process_options.LeaderElectionOptions()
LIMITS = http_listener.ConnectionLimits()
DEFAULTS = {
    (kind.__name__, field.name): field.default
    for kind in (scenario_model.Scenario, scenario_model.Group, scenario_model.Workload)
    for field in msgspec.structs.fields(kind)
}
SENTENCES: tuple[tuple[str, str, float], ...] = (
    ("autoscaler.md", "a pod turns unschedulable | {} after the last of a burst", WINDOW_S),
    ("autoscaler.md", "no node of it is removed for {}", scale_client._TRY_AGAIN_S),
    ("autoscaler.md", "the right to read memory is missing for {}", memory_store._FORBIDDEN_GRACE_S),
    (
        "capacity-apis.md",
        "CapacityReservationTimeExpired, CapacityBookingConsumed | after {}",
        provisioning_request_queue.BOOKING_S,
    ),
    (
        "capacity-apis.md",
        "retried after 1, 2, 4 … {}",
        settings.ProvisioningRequestSettings().provisioning_request_max_backoff_time_s,
    ),
    ("capacity-apis.md", "The result is cached for {}", buffer_templates.CACHE_S),
    ("concepts.md", "are gathered until none has come for {}", WINDOW_S),
    ("concepts.md", "the group *backs off*, {} at first", BACKOFF.initial_node_group_backoff_duration_s),
    ("concepts.md", "twice as long each time, up to {}", BACKOFF.max_node_group_backoff_duration_s),
    ("deviations.md", "Waits until the oldest pending pod is {} old", pending_pods.YOUNG_S),
    (
        "deviations.md",
        "Waits until the oldest pending pod is 2 s old ({} if it wants a GPU)",
        pending_pods.YOUNG_WITH_GPU_S,
    ),
    ("deviations.md", "Waits until no pending pod has come for {}", WINDOW_S),
    ("deviations.md", "A burst is answered {} after the last pod", WINDOW_S),
    (
        "deviations.md",
        "mark must be seen on a watch, and {} passes before the size",
        clusterapi_deletion._OTHERS_HEAR_S,
    ),
    ("deviations.md", "the node is rolled back within {} (`MachineStayed`)", node_deletion._STATUS_DELAY_S),
    ("deviations.md", "none of its nodes is removed for {}", scale_client._TRY_AGAIN_S),
    ("deviations.md", "Here a drain that is under way rests, for {} at most", node_deletion.MAX_HOLD_S),
    (
        "deviations.md",
        "A pod that is still there after the longest grace period and {} makes",
        eviction.POD_EVICTION_HEADROOM_S,
    ),
    ("deviations.md", "It is rolled back {} after it was marked", taints.DELETION_TAKES_S),
    ("deviations.md", "It fails when it is {} old", deviations.ALL_DEVIATIONS.pod_template_grace_s),
    ("deviations.md", "The soft mark of a candidate stays for {} after", actuator._CANDIDATE_TAINT_STAYS_S),
    ("deviations.md", "or so many that none is later than {}", decision_events.MAX_QUEUE_S),
    (
        "deviations.md",
        "waits until every kind of group was read, or is refused for {}",
        clusterapi_informers._FINAL_AFTER_S,
    ),
    ("faq.md", "and that has been so for {}", GROUP.scale_down_unneeded_time_s),
    ("faq.md", "tried all of them; at most {} after the first", deviations.ALL_DEVIATIONS.quiet_window_max_s),
    ("faq.md", "The same event about the same object is written once in {}", reporter.EVENT_DEDUPLICATION_S),
    ("faq.md", "may take `--max-node-startup-time` ({}, and an annotation", GROUP.max_node_startup_time_s),
    ("faq.md", "Pods that outlive that and {} count as gone", eviction.POD_EVICTION_HEADROOM_S),
    ("faq.md", "A pod that is alone triggers a scale-up {} after it turned unschedulable", WINDOW_S),
    ("faq.md", "A node goes {} after it was last needed", GROUP.scale_down_unneeded_time_s),
    ("flags.md", "ToBeDeleted taints older than {} that belong", taints.DELETION_TAKES_S),
    ("flags.md", "even if the same event was recorded within the last {}", reporter.EVENT_DEDUPLICATION_S),
    ("grpc-expander.md", "an error, an invalid response, none within {}", client.CALL_TIMEOUT_S),
    ("grpc-expander.md", "all requests of a loop together get {}", settings.ScaleUpSettings().salvo_scale_up_budget_s),
    (
        "machine-pool.md",
        "A cluster that does not answer for {} is unreachable",
        machine_pool.MachinePoolSettings().grace_s,
    ),
    ("openshift.md", "was not ready three times in a row, {} apart", cluster_autoscaler_reconcile.STATUS_INTERVAL_S),
    ("openshift.md", "A failing dependency counts once in {}", cluster_autoscaler_reconcile.STATUS_INTERVAL_S),
    ("openshift.md", "Unserved template kinds are looked up again every {}", controller._KIND_REQUEUE_S),
    ("observability.md", "the same once in {} unless", reporter.EVENT_DEDUPLICATION_S),
    ("reliability.md", "A watch that breaks may take {} to be taken up again", informers.RECONNECT_S),
    ("reliability.md", "every kind of node group was read, or was refused for {}", clusterapi_informers._FINAL_AFTER_S),
    ("reliability.md", "puts back twice is not written again for {}", scale_client._TRY_AGAIN_S),
    (
        "reliability.md",
        "less `--leader-elect-renew-deadline` ({}) later",
        LEASE.leader_elect_lease_duration_s - LEASE.leader_elect_renew_deadline_s,
    ),
    ("runbook.md", "it is taken over {} after its last renewal", LEASE.leader_elect_lease_duration_s),
    ("runbook.md", "is tried again once it changes, and every {}", quarantine.RETRY_S),
    ("runbook.md", "tried again when its backoff ends, 5 to {}", BACKOFF.max_node_group_backoff_duration_s),
    ("runbook.md", "longer than {}: `--max-node-provision-time`", GROUP.max_node_provision_time_s),
    ("runbook.md", "The same reason about the same object is written once in {}", reporter.EVENT_DEDUPLICATION_S),
    (
        "runbook.md",
        "There is room for all its pods now, and it is booked for {}",
        provisioning_request_queue.BOOKING_S,
    ),
    (
        "runbook.md",
        "It is tried again after 1, 2, 4 … {}",
        settings.ProvisioningRequestSettings().provisioning_request_max_backoff_time_s,
    ),
    ("runbook.md", "The room was kept for {}", provisioning_request_queue.BOOKING_S),
    ("runbook.md", "The workload cluster has not answered for {}", machine_pool.MachinePoolSettings().grace_s),
    ("runbook.md", "was not ready three times in a row, {} apart", cluster_autoscaler_reconcile.STATUS_INTERVAL_S),
    ("scenarios.md", "how often series are noted down | {}", DEFAULTS["Scenario", "sample"]),
    ("scenarios.md", "to the end of the machine | {}", DEFAULTS["Group", "boot"].delay.median_s),
    ("scenarios.md", "to the end of the machine | 60 s, {}", DEFAULTS["Group", "ready"].delay.median_s),
    ("scenarios.md", "to the end of the machine | 60 s, 5 s, {}", DEFAULTS["Group", "stop"].delay.median_s),
    ("scenarios.md", "how long it may take at most for that | {}", DEFAULTS["Workload", "start"].delay.median_s),
    ("scenarios.md", "how long it may take at most for that | 3 s, {}", DEFAULTS["Workload", "stop"].delay.median_s),
    ("scenarios.md", "how long it may take at most for that | 3 s, 2 s, {}", DEFAULTS["Workload", "grace"]),
    ("scenarios.md", "statuses of ReplicaSets follow {} later", workloads.STATUS_LAG_S),
    ("scenarios.md", "A node that falls silent is unknown after {}", node_lifecycle.MONITOR_GRACE_S),
    ("scenarios.md", "a machine that vanished loses its node {} after that", node_lifecycle.NODE_REMOVAL_DELAY_S),
    ("security.md", "nodes for all pods of that namespace, {} at a time", quarantine.RETRY_S),
    ("security.md", "A client has {} for handshake, headers and body", LIMITS.request_s),
    ("security.md", "for handshake, headers and body, may be idle for {}", LIMITS.idle_s),
    ("security.md", "and stop reading for {}", LIMITS.stalled_s),
    ("sweep.md", "A scheduler that does not answer within {}", executors._CONNECT_TIMEOUT_S),
    ("worker-pools.md", "Cluster that is not ready is looked at every {}", reconcile.NOT_READY_REQUEUE_S),
    ("worker-pools.md", "one whose Cluster of Cluster API is missing every {}", reconcile.NO_CLUSTER_REQUEUE_S),
    ("worker-pools.md", "pool is autoscaled, looked at every {}", model.LatticeSettings().resync_s),
)
"""Where a document says how long something takes, and how long that is. Where it is rephrased, so is this."""
COUNTS: tuple[tuple[str, str, float], ...] = (
    ("deviations.md", "**Events of a burst are written at a pace**, {} at once", decision_events.EVENT_BURST),
    ("deviations.md", "twenty at once and then {} a second", decision_events.EVENTS_PER_S),
    ("faq.md", "nodes that are not ready? Up to {}, or 45 %", settings.HealthSettings().ok_total_unready_count),
    ("faq.md", "nodes that are not ready? Up to 3, or {} %", settings.HealthSettings().max_total_unready_percentage),
    (
        "openshift.md",
        "Degraded only when `machine-api` was not ready {} times in a row",
        cluster_autoscaler_reconcile.DEGRADED_AFTER_FAILURES,
    ),
    (
        "runbook.md",
        "`machine-api` was not ready {} times in a row",
        cluster_autoscaler_reconcile.DEGRADED_AFTER_FAILURES,
    ),
    ("security.md", "Each server of a process holds at most {} connections", http_listener._MOST_CONNECTIONS),
)
"""The same for how many."""


def read_duration_s(text: str) -> float:
    found = _DURATION.match(text)
    assert found is not None, f"no duration: {text[:30]}"
    number = _NUMBERS.get(found[1].lower())
    return (float(found[1]) if number is None else number) * _UNITS[found[2].lower()]


def read_count(text: str) -> float:
    found = _COUNT.match(text)
    assert found is not None, f"no count: {text[:30]}"
    number = _NUMBERS.get(found[1].lower())
    return float(found[1]) if number is None else number


def read(document: str) -> str:
    return " ".join((DOCS / document).read_text(encoding="utf-8").split())


def find_rests(document: str, sentence: str) -> Iterator[str]:
    """What follows the words before the figure, wherever the document has them."""
    text, before = read(document), sentence.split("{}")[0]
    said = [text[found.end() :] for found in re.finditer(re.escape(before), text)]
    assert said, f"{document} does not say {before!r} any more"
    yield from said


@pytest.mark.parametrize(("document", "sentence", "seconds"), SENTENCES)
def test_a_sentence_gives_the_duration_that_the_code_has(document: str, sentence: str, seconds: float) -> None:
    for rest in find_rests(document, sentence):
        assert read_duration_s(rest) == pytest.approx(seconds)
        assert rest[_DURATION.match(rest).end() :].startswith(sentence.split("{}")[1])  # type: ignore[union-attr]


@pytest.mark.parametrize(("document", "sentence", "count"), COUNTS)
def test_a_sentence_gives_the_count_that_the_code_has(document: str, sentence: str, count: float) -> None:
    for rest in find_rests(document, sentence):
        assert read_count(rest) == count
        assert rest[_COUNT.match(rest).end() :].startswith(sentence.split("{}")[1])  # type: ignore[union-attr]


@pytest.mark.parametrize("rule", test_alerts.read_alerts(), ids=lambda rule: rule["alert"])
def test_a_duration_in_the_entry_of_an_alert_is_how_long_it_waits(rule: dict[str, Any]) -> None:
    for found in _DURATION.finditer(events_reference.find()[rule["alert"]].sentence):
        assert read_duration_s(found[0]) == time_formats.parse_duration(rule["for"])


def find_defaults_of_flags() -> Iterator[tuple[str, str, str]]:
    """(document, flag, value) wherever one stands in parentheses behind the other: `--flag` (15 minutes)."""
    for path in sorted(DOCS.glob("*.md")):
        for found in re.finditer(
            r"(?<!less )`--([a-z][\w-]*)` \(`?([^()`]+)`?\)", " ".join(path.read_text(encoding="utf-8").split())
        ):
            if _DURATION.fullmatch(found[2]) or _NUMBER.fullmatch(found[2]):
                yield path.name, found[1], found[2]


@pytest.mark.parametrize(("document", "flag", "said"), list(find_defaults_of_flags()))
def test_a_figure_behind_a_flag_is_its_default(document: str, flag: str, said: str) -> None:
    found = float(said) if _NUMBER.fullmatch(said) else read_duration_s(said)
    assert found == pytest.approx(find_default(flag))


def find_default(flag: str) -> object:
    """Of `windlass autoscaler`, or else of `windlass operator`."""
    known = {**flags.DECISION_FLAGS, **flags.PROCESS_FLAGS}.get(flag)
    return inspect.signature(operator).parameters[flag.replace("-", "_")].default if known is None else known.default
