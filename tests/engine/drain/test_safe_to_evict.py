import pytest

from tests.engine.drain import builders
from windlass.engine.drain import not_safe_to_evict, on_completion, outcome, rules, safe_to_evict

ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@pytest.mark.parametrize(
    ("rule", "value", "action"),
    [
        (safe_to_evict.decide, "true", outcome.Action.DRAIN),
        (on_completion.decide, "on-completion", outcome.Action.WAIT),
        (not_safe_to_evict.decide, "false", outcome.Action.BLOCK),
    ],
)
def test_each_rule_hears_its_own_value_only(rule: rules.Rule, value: str, action: outcome.Action) -> None:
    for said in ("true", "false", "on-completion", "True", "maybe", ""):
        found = rule(builders.pod(annotations={ANNOTATION: said}), builders.context())
        assert (found is not None) is (said == value)
        assert found is None or found.action is action
    assert rule(builders.pod(), builders.context()) is None


def test_not_safe_has_its_reason() -> None:
    found = not_safe_to_evict.decide(builders.pod(annotations={ANNOTATION: "false"}), builders.context())
    assert found is not None
    assert found.reason == "NotSafeToEvictAnnotation"
    assert found.text(builders.pod()) == f"default/p0 is annotated {ANNOTATION}=false"
