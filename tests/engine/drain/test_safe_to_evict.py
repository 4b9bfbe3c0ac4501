import pytest

from tests.engine.drain import builders
from windlass.engine.drainability import eviction_annotations, rules
from windlass.engine.model import drainability

ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@pytest.mark.parametrize(
    ("rule", "value", "action"),
    [
        (eviction_annotations.check_safe_to_evict, "true", drainability.DrainAction.DRAIN),
        (eviction_annotations.check_on_completion, "on-completion", drainability.DrainAction.WAIT),
        (eviction_annotations.check_not_safe_to_evict, "false", drainability.DrainAction.BLOCK),
    ],
)
def test_each_rule_hears_its_own_value_only(
    rule: rules.DrainabilityRule, value: str, action: drainability.DrainAction
) -> None:
    for said in ("true", "false", "on-completion", "True", "maybe", ""):
        found = rule(builders.pod(annotations={ANNOTATION: said}), builders.context())
        assert (found is not None) is (said == value)
        assert found is None or found.action is action
    assert rule(builders.pod(), builders.context()) is None


def test_not_safe_has_its_reason() -> None:
    found = eviction_annotations.check_not_safe_to_evict(
        builders.pod(annotations={ANNOTATION: "false"}), builders.context()
    )
    assert found is not None
    assert found.reason == "NotSafeToEvictAnnotation"
    assert found.text(builders.pod()) == f"default/p0 is annotated {ANNOTATION}=false"
