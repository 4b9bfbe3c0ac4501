"""Figures in prose are those of the code: defaults of flags that a sentence names, and constants that it does not."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from handbook import events
from tests.docs import test_alerts
from windlass.autoscaler import flags, keeping, wiring
from windlass.autoscaler.act import actor
from windlass.autoscaler.batch import completing
from windlass.autoscaler.expander_server import server as expander_server
from windlass.autoscaler.report import pacing, reporter
from windlass.cli.operator import operator
from windlass.controllers.eks_anywhere import decide as eks_anywhere
from windlass.controllers.lattice import settings as lattice
from windlass.controllers.machine_pool import settings as machine_pool
from windlass.controllers.openshift.cluster_autoscaler.decide import reporting
from windlass.controllers.openshift.machineset_sync import controller as machineset_sync
from windlass.engine import deviations, quarantine, settings, taints
from windlass.engine.draining import ending, evicting, holding
from windlass.engine.provisioning import aging
from windlass.engine.scale_up import pending
from windlass.kube import durations, informers
from windlass.providers.clusterapi import following, marks, put_backs
from windlass.runtime import listener
from windlass.simulator.scenario import model
from windlass.simulator.world import node_lifecycle, replica_sets
from windlass.sweep import clusters

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

WINDOW_S = deviations.WINDLASS.quiet_window_s
GROUP = settings.GroupDefaults()
BACKOFF = settings.Settings().health
LEASE = wiring.LeaderElection()
LIMITS = listener.Limits()
DEFAULTS = {
    (kind.__name__, field.name): field.default
    for kind in (model.Scenario, model.Group, model.Workload)
    for field in msgspec.structs.fields(kind)
}
SENTENCES: tuple[tuple[str, str, float], ...] = (
    ("autoscaler.md", "a pod turns unschedulable | {} after the last of a burst", WINDOW_S),
    ("autoscaler.md", "no node of it is removed for {}", put_backs._TRY_AGAIN_S),
    ("autoscaler.md", "the right to read memory is missing for {}", keeping._REFUSED_FOR_S),
    ("batch.md", "CapacityReservationTimeExpired, CapacityBookingConsumed | after {}", aging.BOOKING_S),
    (
        "batch.md",
        "it is tried again after 1, 2, 4 … {}",
        settings.ProvisioningRequests().provisioning_request_max_backoff_time_s,
    ),
    ("batch.md", "The answer is believed for {}", completing.KNOWN_S),
    ("concepts.md", "are gathered until none has come for {}", WINDOW_S),
    ("concepts.md", "the group *backs off*, {} at first", BACKOFF.initial_node_group_backoff_duration_s),
    ("concepts.md", "twice as long each time, up to {}", BACKOFF.max_node_group_backoff_duration_s),
    ("deviations.md", "Waits until the oldest pending pod is {} old", pending.YOUNG_S),
    ("deviations.md", "Waits until the oldest pending pod is 2 s old ({} if it wants a GPU)", pending.YOUNG_WITH_GPU_S),
    ("deviations.md", "Waits until no pending pod has come for {}", WINDOW_S),
    ("deviations.md", "A burst is answered {} after the last pod", WINDOW_S),
    ("deviations.md", "mark must be seen on a watch, and {} passes before the size", marks._OTHERS_HEAR_S),
    ("deviations.md", "the node is given back within {} (`MachineStayed`)", ending._NEWS_TAKE_S),
    ("deviations.md", "none of its nodes is removed for {}", put_backs._TRY_AGAIN_S),
    ("deviations.md", "Here a drain that is under way rests, for {} at most", holding.MAX_HOLD_S),
    ("deviations.md", "A pod that is still there after the longest grace period and {} makes", evicting.HEADROOM_S),
    ("deviations.md", "It is given back {} after it was marked", taints.DELETION_TAKES_S),
    ("deviations.md", "It fails when it is {} old", deviations.WINDLASS.pod_template_grace_s),
    ("deviations.md", "The soft mark of a candidate stays for {} after", actor._MARKS_STAY_S),
    ("deviations.md", "or so many that none is later than {}", pacing.WITHIN_S),
    ("deviations.md", "waits until every kind of group was read, or is refused for {}", following._FINAL_AFTER_S),
    ("faq.md", "and that has been so for {}", GROUP.scale_down_unneeded_time_s),
    ("faq.md", "tried all of them; at most {} after the first", deviations.WINDLASS.quiet_window_max_s),
    ("faq.md", "The same event about the same object is written once in {}", reporter.QUIET_S),
    ("faq.md", "may take `--max-node-startup-time` ({}, and an annotation", GROUP.max_node_startup_time_s),
    ("faq.md", "Pods that outlive that and {} count as gone", evicting.HEADROOM_S),
    ("faq.md", "A pod that is alone triggers a scale-up {} after it turned unschedulable", WINDOW_S),
    ("faq.md", "A node goes {} after it was last needed", GROUP.scale_down_unneeded_time_s),
    ("flags.md", "A node that was marked for deletion more than {} ago", taints.DELETION_TAKES_S),
    ("flags.md", "Record an event again that was recorded within the last {}", reporter.QUIET_S),
    ("grpc-expander.md", "an error, nonsense, nothing within {}", expander_server.WITHIN_S),
    ("grpc-expander.md", "all questions of a loop together get {}", settings.ScaleUp().salvo_scale_up_budget_s),
    ("machine-pool.md", "A cluster that does not answer for {} is unreachable", machine_pool.Settings().grace_s),
    ("openshift.md", "was not ready three times in a row, {} apart", reporting.EVERY_S),
    ("openshift.md", "A failing dependency counts once in {}", reporting.EVERY_S),
    ("openshift.md", "A kind of template that the server lacks is looked for every {}", machineset_sync._KIND_S),
    ("outside.md", "the same once in {} unless", reporter.QUIET_S),
    ("reliability.md", "A watch that breaks may take {} to be taken up again", informers.RECONNECT_S),
    ("reliability.md", "every kind of node group was read, or was refused for {}", following._FINAL_AFTER_S),
    ("reliability.md", "puts back twice is not written again for {}", put_backs._TRY_AGAIN_S),
    (
        "reliability.md",
        "less `--leader-elect-renew-deadline` ({}) later",
        LEASE.leader_elect_lease_duration_s - LEASE.leader_elect_renew_deadline_s,
    ),
    ("runbook.md", "it is taken over {} after its last renewal", LEASE.leader_elect_lease_duration_s),
    ("runbook.md", "is tried again once it changes, and every {}", quarantine.RETRY_S),
    ("runbook.md", "tried again when its backoff ends, 5 to {}", BACKOFF.max_node_group_backoff_duration_s),
    ("runbook.md", "longer than {}: `--max-node-provision-time`", GROUP.max_node_provision_time_s),
    ("runbook.md", "The same reason about the same object is written once in {}", reporter.QUIET_S),
    ("runbook.md", "There is room for all its pods now, and it is booked for {}", aging.BOOKING_S),
    (
        "runbook.md",
        "It is tried again after 1, 2, 4 … {}",
        settings.ProvisioningRequests().provisioning_request_max_backoff_time_s,
    ),
    ("runbook.md", "The room was kept for {}", aging.BOOKING_S),
    ("runbook.md", "The workload cluster has not answered for {}", machine_pool.Settings().grace_s),
    ("runbook.md", "was not ready three times in a row, {} apart", reporting.EVERY_S),
    ("scenarios.md", "how often series are noted down | {}", DEFAULTS["Scenario", "sample"]),
    ("scenarios.md", "to the end of the machine | {}", DEFAULTS["Group", "boot"].delay.median_s),
    ("scenarios.md", "to the end of the machine | 60 s, {}", DEFAULTS["Group", "ready"].delay.median_s),
    ("scenarios.md", "to the end of the machine | 60 s, 5 s, {}", DEFAULTS["Group", "stop"].delay.median_s),
    ("scenarios.md", "how long it may take at most for that | {}", DEFAULTS["Workload", "start"].delay.median_s),
    ("scenarios.md", "how long it may take at most for that | 3 s, {}", DEFAULTS["Workload", "stop"].delay.median_s),
    ("scenarios.md", "how long it may take at most for that | 3 s, 2 s, {}", DEFAULTS["Workload", "grace"]),
    ("scenarios.md", "statuses of ReplicaSets follow {} later", replica_sets.STATUS_LAG_S),
    ("scenarios.md", "A node that falls silent is unknown after {}", node_lifecycle.SILENT_S),
    ("scenarios.md", "a machine that vanished loses its node {} after that", node_lifecycle.FORGOTTEN_S),
    ("security.md", "nodes for all pods of that namespace, {} at a time", quarantine.RETRY_S),
    ("security.md", "A client has {} for handshake, headers and body", LIMITS.request_s),
    ("security.md", "for handshake, headers and body, may be idle for {}", LIMITS.idle_s),
    ("security.md", "and stop reading for {}", LIMITS.stalled_s),
    ("sweep.md", "A scheduler that does not answer within {}", clusters._WITHIN_S),
    ("worker-pools.md", "Cluster that is not ready is looked at every {}", eks_anywhere.NOT_READY_S),
    ("worker-pools.md", "one whose Cluster of Cluster API is missing every {}", eks_anywhere.NO_CLUSTER_S),
    ("worker-pools.md", "pool is autoscaled, looked at every {}", lattice.Settings().resync_s),
)
"""Where a document says how long something takes, and how long that is. Where it is rephrased, so is this."""
COUNTS: tuple[tuple[str, str, float], ...] = (
    ("deviations.md", "**Events of a burst are written at a pace**, {} at once", pacing.AT_ONCE),
    ("deviations.md", "twenty at once and then {} a second", pacing.PER_S),
    ("faq.md", "nodes that are not ready? Up to {}, or 45 %", settings.Health().ok_total_unready_count),
    ("faq.md", "nodes that are not ready? Up to 3, or {} %", settings.Health().max_total_unready_percentage),
    ("openshift.md", "Degraded only when `machine-api` was not ready {} times in a row", reporting.FAILURES),
    ("runbook.md", "`machine-api` was not ready {} times in a row", reporting.FAILURES),
    ("security.md", "Each server of a process holds at most {} connections", listener._MOST_CONNECTIONS),
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
    for found in _DURATION.finditer(events.find()[rule["alert"]].sentence):
        assert read_duration_s(found[0]) == durations.parse(rule["for"])


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
    known = {**flags.FLAGS, **flags.WIRING}.get(flag)
    return inspect.signature(operator).parameters[flag.replace("-", "_")].default if known is None else known.default
