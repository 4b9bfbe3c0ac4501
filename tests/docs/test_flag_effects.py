"""Every flag has a test that shows its effect, or is listed: as without effect, or as one that lacks a test."""

import ast
from pathlib import Path

import pytest

from tests import flag_effects
from windlass.autoscaler.options import flags

ROOT = Path(__file__).parents[2]

NOT_NAMED = frozenset(
    {
        "add-dir-header",
        "blocking-system-pod-distruption-timeout",
        "book-only-what-is-left",
        "check-capacity-processor-instance",
        "check-capacity-provisioning-request-batch-timebox",
        "check-capacity-provisioning-request-max-batch-size",
        "clear-abandoned-marks",
        "count-external-resizes-as-upcoming",
        "count-leaving-nodes-as-gone",
        "count-stuck-pods-as-gone",
        "debugging-snapshot-enabled",
        "enforce-min-respects-max-nodes-total",
        "expendable-pods-priority-cutoff",
        "fail-empty-requests",
        "fastpath-binpacking-enabled",
        "feature-gates",
        "force-ds",
        "foresee-refused-evictions",
        "frequent-loops-enabled",
        "group-pods-by-likeness",
        "hold-room-for-evicted-pods",
        "ignore-csi-zone-labels",
        "keep-cordons",
        "keep-places-found",
        "kube-client-burst",
        "kube-scheduler-version",
        "leader-elect-lease-duration",
        "leader-elect-renew-deadline",
        "leader-elect-resource-name",
        "leader-elect-resource-namespace",
        "leader-elect-retry-period",
        "leave-others-requests-alone",
        "leave-rollouts-alone",
        "log-json-split-stream",
        "max-allocatable-difference-ratio",
        "max-binpacking-time",
        "max-failing-time",
        "max-free-difference-ratio",
        "max-nodegroup-binpacking-duration",
        "max-startup-time",
        "max-total-unready-percentage",
        "memory-config-map",
        "memory-difference-ratio",
        "min-replica-count",
        "move-drained-pods",
        "never-shrink-blindly",
        "node-group-backoff-reset-timeout",
        "node-info-cache-expire-time",
        "pause-after-failed-drains",
        "pod-template-grace",
        "provisioning-request-initial-backoff-time",
        "provisioning-request-max-backoff-cache-size",
        "provisioning-request-max-backoff-time",
        "readiness-taints",
        "recheck-places-before-draining",
        "recheck-unremovable-nodes",
        "recognise-newcomers",
        "record-limit",
        "revert-only-missing-nodes",
        "salvo-scale-up-budget",
        "say-why-not-found",
        "scale-down-simulation-timeout",
        "scale-from-unschedulable",
        "scale-up-from-zero",
        "shadow-window",
        "skip-nodes-with-custom-controller-pods",
        "skip-nodes-with-system-pods",
        "startup-taint-prefix",
        "tight-packing",
        "try-all-candidates",
    }
)
"""Flags that no test names by flag or field: vectors, or tests that set them by another name, cover them at most."""


def test_every_flag_has_a_test_or_is_listed() -> None:
    known = flag_effects.read_table().keys() | flags.IGNORED_FLAGS.keys() | NOT_NAMED
    assert sorted(flag_effects.find_flags().keys() - known) == [], (
        "add a test, and the line that `python -m tests.flag_effects find FLAG` finds to tests/flag_effects.tsv"
    )


def test_no_line_is_about_a_flag_that_there_is_not() -> None:
    listed = flag_effects.read_table().keys() | NOT_NAMED
    assert sorted(listed - flag_effects.find_flags().keys()) == []
    assert sorted(flag_effects.read_table().keys() & NOT_NAMED) == []


@pytest.mark.parametrize("effect", flag_effects.read_table().values(), ids=lambda effect: effect.flag)
def test_the_test_of_a_flag_exists_and_mentions_it(effect: flag_effects.Effect) -> None:
    path, _, function = effect.test.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    functions = {one.name for one in ast.parse(text).body if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert function in functions
    assert flag_effects.mentions(text, flag_effects.find_flags()[effect.flag])
    assert effect.how in ("shown", "named")


def test_a_field_that_is_not_heeded_keeps_its_default() -> None:
    class Settings:
        size = flag_effects._Deaf(3)

    chosen = Settings()
    chosen.size = 5
    assert chosen.size == 3
