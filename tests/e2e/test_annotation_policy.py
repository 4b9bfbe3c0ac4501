"""The admission policy for node groups' annotations on the real API server."""

import itertools
from pathlib import Path

from testbed import api, openshift
from tests.e2e.node_groups import Group
from tests.e2e.scale_scenario import Scene

POLICY = Path(__file__).parents[2] / "deploy" / "admission" / "node-group-annotations.yaml"
ADMISSION, NAME = "/apis/admissionregistration.k8s.io/v1", "windlass-node-group-annotations"


def refusal(group: Group, **annotations: str) -> str:
    """What the server says of a change; empty if it is made."""
    try:
        group.annotate(**annotations)
    except api.Refused as refused:
        return refused.body
    return ""


def test_nonsense_in_annotations_is_refused_and_controllers_can_go_on_writing(scene: Scene) -> None:
    group, wrong = scene.group("a"), scene.group("wrong", max_size="abc")
    tries = itertools.count()  # what is so already is not judged
    openshift.add_all(scene.api, POLICY)
    try:
        scene.wait(
            "the policy is in force",
            lambda: refusal(group, max_size=f"x{next(tries)}"),
            lambda said: "must be whole numbers" in said,
        )
        assert "must be whole numbers" in refusal(group, min_size="-1")
        assert "at least its minimum" in refusal(group, min_size="9", max_size="2")
        assert "must be durations" in refusal(group, unneeded="soon")
        assert refusal(group, unneeded="90s", max_size="4") == ""
        assert refusal(wrong, unneeded="90s") == "", "what was wrong before is not judged"
        scene.pods("web", 1, [group])
        scene.wait_running(1)
    finally:
        for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            scene.api.delete(f"{ADMISSION}/{kind}/{NAME}")
        scene.wait("the policy is gone", lambda: refusal(wrong, max_size=f"y{next(tries)}") == "")
