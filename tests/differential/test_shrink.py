"""Disagreements are made small. The oracle here is the second opinion, with lies of known cause mixed in."""

from collections.abc import Sequence

from tests.conformance import reference_scheduler
from tests.differential import oracle, shrink
from tests.simulator import builders
from windlass.simulator.reference_scheduler import scheduling_cycle
from windlass.simulator.reference_scheduler.cluster_view import ClusterView

LIE: oracle.Json = {"plugin": "Lie", "code": "Unschedulable", "reasons": ["a lie"]}


def evaluate(cases: Sequence[oracle.Json]) -> list[oracle.Json]:
    """Tell the truth, but refuse nodes with the label `cursed` to pods with the label `witch`."""
    return [{**case, "verdicts": {pod["metadata"]["name"]: _verdicts(case, pod) for pod in case["pending"]}}
            for case in cases]  # fmt: skip


def _verdicts(case: oracle.Json, pod: oracle.Json) -> oracle.Json:
    view = ClusterView.of(case["objects"])
    found = {
        name: reference_scheduler.to_text(refusal) for name, refusal in scheduling_cycle.run_filters(view, pod).items()
    }
    if "witch" in pod["metadata"].get("labels", {}):
        found |= {name: LIE for name, node in view.nodes.items() if "cursed" in node.labels}
    return found


def make_case() -> oracle.Json:
    nodes = [builders.node(f"node-{i}", labels={"zone": f"z{i % 2}"} | ({"cursed": "yes"} if i == 5 else {}))
             for i in range(7)]  # fmt: skip
    running = [builders.pod(f"run-{i}", on=f"node-{i % 7}", labels={"app": "web"}) for i in range(9)]
    pending = [builders.pod(f"new-{i}", labels={"app": "web"} | ({"witch": "yes"} if i == 2 else {}))
               for i in range(4)]  # fmt: skip
    objects = [{"apiVersion": "v1", **item} for item in (*nodes, *running)]
    return {"name": "case", "objects": objects, "pending": [{"apiVersion": "v1", **entry} for entry in pending]}


def test_what_has_no_part_in_the_disagreement_is_left_out() -> None:
    (case,) = evaluate([make_case()])
    small = shrink.shrink(case, evaluate)
    assert [item["metadata"]["name"] for item in small["objects"]] == ["node-5"]
    assert small["objects"][0]["metadata"]["labels"] == {"cursed": "yes"}
    assert [entry["metadata"]["labels"] for entry in small["pending"]] == [{"witch": "yes"}]
    assert small["verdicts"] == {"new-2": {"node-5": LIE}}


def test_a_case_that_agrees_shows_no_sign_of_disagreement() -> None:
    case = make_case()
    del case["pending"][2]["metadata"]["labels"]["witch"]
    assert shrink.signs(evaluate([case])[0]) == set()


def test_an_object_that_cannot_be_read_is_a_disagreement_of_its_own() -> None:
    case = make_case()
    del case["pending"][2:]
    (judged,) = evaluate([case])
    judged["objects"][0]["status"]["allocatable"]["cpu"] = "1.5.3"
    assert ("set aside",) in shrink.signs(judged)


def test_candidates_on_which_the_oracle_gives_up_are_passed_over() -> None:
    def fragile(cases: Sequence[oracle.Json]) -> list[oracle.Json]:
        if not all("zone" in node["metadata"].get("labels", {}) for item in cases for node in item["objects"]):
            raise oracle.OracleFailed("no zone")
        return evaluate(cases)

    case = make_case()
    case["objects"] = [entry for entry in case["objects"] if entry["kind"] == "Node"]
    small = shrink.shrink(fragile([case])[0], fragile)
    assert small["objects"][0]["metadata"]["labels"] == {"zone": "z1", "cursed": "yes"}
