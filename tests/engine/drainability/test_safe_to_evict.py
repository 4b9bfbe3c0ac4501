import pytest

from tests.engine.drainability import builders
from windlass.engine.drainability import rules, safe_to_evict
from windlass.engine.model import drainability

ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@pytest.mark.parametrize(
    ("rule", "value", "action"),
    [
        (safe_to_evict.check_safe_to_evict, "true", drainability.DrainAction.DRAIN),
        (safe_to_evict.check_on_completion, "on-completion", drainability.DrainAction.WAIT),
        (safe_to_evict.check_not_safe_to_evict, "false", drainability.DrainAction.BLOCK),
    ],
)
def test_each_rule_hears_its_own_value_only(
    rule: rules.DrainabilityRule, value: str, action: drainability.DrainAction
) -> None:
    for said in ("true", "false", "on-completion", "True", "maybe", ""):
        status = rule(builders.pod(annotations={ANNOTATION: said}), builders.context())
        assert (status is not None) is (said == value)
        assert status is None or status.action is action
    assert rule(builders.pod(), builders.context()) is None


def test_not_safe_has_its_reason() -> None:
    status = safe_to_evict.check_not_safe_to_evict(builders.pod(annotations={ANNOTATION: "false"}), builders.context())
    assert status is not None
    assert status.reason == "NotSafeToEvictAnnotation"
    assert status.text(builders.pod()) == f"default/p0 is annotated {ANNOTATION}=false"
