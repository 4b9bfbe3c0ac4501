"""What is said of pending pods."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli import objects
from tests.cli.run import windlass
from windlass.cli import fit_report, terminal_output
from windlass.cli.fit_report import FitReport, PodFinding


def evaluate(*found: objects.Json, options: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    outcome = windlass("fit", "-", "-o", "json", *options, stdin=json.dumps(found).encode())
    assert outcome.code == 0, outcome.err
    pending: list[dict[str, Any]] = json.loads(outcome.out)["pending"]
    return pending


def show(*found: objects.Json, options: tuple[str, ...] = ()) -> str:
    return windlass("fit", "-", *options, stdin=json.dumps(found).encode()).out


def keep_away(app: str) -> Any:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


# Which pods


def test_only_pods_that_wait_are_judged() -> None:
    done = {**objects.pod("done"), "status": {"phase": "Succeeded"}}
    found = evaluate(objects.node("n"), objects.pod("bound", nodeName="n"), done, objects.pod("waits"))

    assert [item["pod"] for item in found] == ["ns/waits"]


def test_pods_of_one_owner_are_one_line_unless_filters_can_tell_them_apart() -> None:
    pods = [objects.pod(f"web-{i}", owner="web") for i in range(3)]
    found = evaluate(
        objects.node("n"), *pods, objects.pod("web-3", cpu="2", owner="web"), objects.pod("a"), objects.pod("b")
    )

    assert [(item["pod"], item["count"], item["owner"]) for item in found] == [
        ("ns/web-0", 3, "ReplicaSet/web"),
        ("ns/web-3", 1, "ReplicaSet/web"),
        ("ns/a", 1, None),
        ("ns/b", 1, None),
    ]
    assert found[0]["pods"] == ["ns/web-0", "ns/web-1", "ns/web-2"]
    assert "ns/web-0 and 2 more" in show(objects.node("n"), *pods)


def test_a_cloud_tpu_rules_out_nodes_as_in_kube_scheduler() -> None:
    waits = objects.pod("p")
    waits["spec"]["containers"][0]["resources"]["requests"]["cloud-tpus.google.com/v4"] = "8"
    (found,) = evaluate(objects.node("n"), waits)

    assert found["fits"] == []
    assert found["message"] == "0/1 nodes are available: 1 Insufficient cloud-tpus.google.com/v4."


def test_each_pod_is_judged_as_if_it_were_alone() -> None:
    found = evaluate(objects.node("n", cpu="1"), *(objects.pod(f"p{i}", owner="o") for i in range(5)))

    assert found[0]["fits"] == ["n"]


def test_what_else_holds_a_pod_back_is_noted_and_it_is_judged_all_the_same() -> None:
    gated = objects.pod("gated", schedulingGates=[{"name": "a.com/x"}, {"name": "b.com/y"}])
    foreign = objects.pod("foreign", schedulerName="volcano")
    going = objects.pod("going")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    promised = {**objects.pod("promised"), "status": {"nominatedNodeName": "n"}}
    found = evaluate(objects.node("n"), gated, foreign, going, promised)

    assert [item["notes"] for item in found] == [
        ["not scheduled while it has the gate a.com/x, b.com/y"],
        ["it is for the scheduler volcano, checked here as by default-scheduler"],
        ["it is being deleted, and no longer scheduled"],
        ["it is nominated to n, where pods are preempted for it"],
    ]
    assert all(entry["fits"] == ["n"] for entry in found)


# Why not


def test_a_claim_on_devices_is_judged_like_anything_else() -> None:
    pod = objects.pod("device", resourceClaims=[{"name": "gpu", "resourceClaimName": "g"}])
    found = evaluate(objects.node("n"), pod)

    assert found[0]["fits"] == []
    assert 'could not find ResourceClaim "ns/g"' in str(found)


def test_reasons_are_counted_in_the_schedulers_words() -> None:
    nodes = [objects.node("a", cpu="1"), objects.node("b", cpu="2"), objects.node("c", unschedulable=True)]
    tainted = objects.node("d", taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    (item,) = evaluate(*nodes, tainted, objects.pod("p", cpu="3"))

    assert item["message"] == (
        "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, 2 Insufficient cpu."
    )
    assert [(reason["count"], reason["reason"], reason["rule"]) for reason in item["reasons"]] == [
        (2, "Insufficient cpu", "NodeResourcesFit"),
        (1, "node(s) had untolerated taint(s)", "TaintToleration"),
        (1, "node(s) were unschedulable", "NodeUnschedulable"),
    ]


def test_the_node_that_came_closest_is_told() -> None:
    busy = objects.pod("busy", cpu="1500m", nodeName="b")
    (item,) = evaluate(objects.node("a", cpu="2"), objects.node("b"), busy, objects.pod("p", cpu="3"))
    (reason,) = item["reasons"]

    assert reason["closest"] == {"resource": "cpu", "requested": "3", "free": "2500m", "capacity": "4", "node": "b"}
    assert reason["detail"] == "needs 3, most free 2500m on b"
    assert reason["nodes"] == ["a", "b"]


def test_a_node_without_room_for_one_more_pod_says_so() -> None:
    full = {**objects.node("n"), "status": {"allocatable": {"cpu": "4", "pods": "1"}}}
    (item,) = evaluate(full, objects.pod("there", nodeName="n"), objects.pod("p"))

    assert [(reason["reason"], reason["detail"]) for reason in item["reasons"]] == [("Too many pods", "1 of 1 on n")]


def clue(*found: objects.Json) -> str:
    """What is told besides the one reason for which no node will do."""
    (item,) = evaluate(*found)
    (reason,) = item["reasons"]
    detail: str = reason["detail"]
    return detail


def test_the_taint_is_named() -> None:
    def taint(key: str) -> list[Any]:
        tolerated = {"key": "tolerated", "effect": "NoSchedule"}
        return [{"key": "soft", "effect": "PreferNoSchedule"}, tolerated, {"key": key, "effect": "NoExecute"}]

    pod = objects.pod("p", tolerations=[{"key": "tolerated", "operator": "Exists"}])

    assert (
        clue(*(objects.node(f"n{i}", taints=taint("x")) for i in range(5)), pod)
        == "x:NoExecute (n0, n1, n2 and 2 more)"
    )
    assert (
        clue(objects.node("a", taints=taint("x")), objects.node("b", taints=taint("y")), pod)
        == "x:NoExecute, y:NoExecute"
    )


def test_the_label_that_no_node_has_is_named() -> None:
    assert clue(objects.node("n-a"), objects.pod("p", nodeSelector={"zone": "b"})) == "no node has zone=b"
    (item,) = evaluate(objects.node("n-a"), objects.pod("p", nodeSelector={"zone": "b"}), options=("-v",))
    assert item["verdicts"][0]["details"] == ["it has zone=a, not b"]
    (item,) = evaluate(objects.node("n-a"), objects.pod("p", nodeSelector={"disk": "ssd"}), options=("-v",))
    assert item["verdicts"][0]["details"] == ["it has no disk, not ssd"]


def test_the_pod_that_is_in_the_way_is_named() -> None:
    shy = objects.pod("shy", labels={"app": "shy"}, affinity=keep_away("web"))
    web = objects.pod("web", labels={"app": "web"})

    assert clue(objects.node("n"), {**web, "spec": {**web["spec"], "nodeName": "n"}}, shy) == "ns/web is on n"
    assert clue(objects.node("n"), {**shy, "spec": {**shy["spec"], "nodeName": "n"}}, web) == "ns/shy is on n"


def test_the_pod_that_holds_the_port_is_named() -> None:
    def serve(name: str, **spec: Any) -> objects.Json:
        return objects.pod(name, **spec) | {
            "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}]}], **spec}
        }

    assert clue(objects.node("n"), serve("old", nodeName="n"), serve("new")) == "ns/old holds 8080/TCP"


def test_the_skew_is_counted() -> None:
    spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    constraint = {**spread, "labelSelector": {"matchLabels": {"app": "x"}}}
    there = objects.pod("there", labels={"app": "x"}, nodeName="n-a")
    pod = objects.pod("p", labels={"app": "x"}, topologySpreadConstraints=[constraint])
    item = evaluate(objects.node("n-a"), objects.node("n-b", unschedulable=True), there, pod)[0]

    assert [reason["detail"] for reason in item["reasons"]] == ["zone a has 1, the emptiest has 0", "n-b"]


def test_a_refusal_before_any_node_is_looked_at_is_not_counted() -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}
    (item,) = evaluate(objects.node("a"), objects.node("b"), objects.pod("p", volumes=[volume]))

    assert item["message"] == '0/2 nodes are available: persistentvolumeclaim "missing" not found.'
    assert '       persistentvolumeclaim "missing" not found\n' in show(
        objects.node("a"), objects.pod("p", volumes=[volume])
    )


NO_LABEL_VALUE = (
    """"-x": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must """
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
    "validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def test_a_preferred_term_that_cannot_be_parsed_refuses_the_pod_in_the_schedulers_words() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "-x"}}}
    preferred = [{"weight": 1, "podAffinityTerm": term}]
    affinity = {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    (item,) = evaluate(objects.node("a"), objects.pod("p", affinity=affinity))

    fault = f"preferredAntiAffinityTerms: values[0][app]: Invalid value: {NO_LABEL_VALUE}"
    assert item["message"] == f"0/1 nodes are available: parsing pod: {fault}."


def spread_by(when: str) -> list[Any]:
    values = {"key": "app", "operator": "NotIn", "values": ["a", "-x"]}
    constraint = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": when}
    return [{**constraint, "labelSelector": {"matchExpressions": [values]}}]


def test_a_hard_constraint_that_cannot_be_parsed_is_an_error() -> None:
    hard = objects.pod("p", topologySpreadConstraints=spread_by("DoNotSchedule"))
    (item,) = evaluate(objects.node("a"), hard, options=("--explain", "ns/p"))

    (found,) = item["verdicts"]
    fault = f"obtaining pod's hard topology spread constraints: values[1][app]: Invalid value: {NO_LABEL_VALUE}"
    text = f'running PreFilter plugin "PodTopologySpread": get constraints from pod: {fault}'
    assert (found["rule"], found["code"], found["reasons"]) == ("PodTopologySpread", "Error", [text])


def test_a_soft_constraint_that_cannot_be_parsed_refuses_no_node() -> None:
    soft = objects.pod("p", topologySpreadConstraints=spread_by("ScheduleAnyway"))
    assert evaluate(objects.node("a"), soft)[0]["fits"] == ["a"]


def test_the_anti_affinity_of_a_running_pod_counts_for_nothing_if_one_term_cannot_be_parsed() -> None:
    apart = keep_away("web")
    there = objects.pod("there", nodeName="a", affinity=apart)
    web = objects.pod("p", labels={"app": "web"})
    assert evaluate(objects.node("a"), there, web)[0]["fits"] == []

    (terms,) = apart["podAntiAffinity"].values()
    terms.append({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "-x"}}})
    assert evaluate(objects.node("a"), there, web)[0]["fits"] == ["a"]


@pytest.mark.parametrize("values", [["-x"], ["b", "-x"], ["a" * 64], []])
def test_a_node_affinity_term_that_cannot_be_parsed_matches_no_node_and_the_others_count(values: list[str]) -> None:
    def require(*terms: Any) -> objects.Json:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        return objects.pod("p", affinity={"nodeAffinity": required})

    bad = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": values}]}
    good = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    assert evaluate(objects.node("a"), objects.node("b"), require(bad))[0]["fits"] == []
    assert evaluate(objects.node("a"), objects.node("b"), require(bad, good))[0]["fits"] == ["a"]


def test_a_claim_with_a_selector_that_cannot_be_parsed_is_an_error_on_every_node() -> None:
    late = {"kind": "StorageClass", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "late"}}
    late |= {"provisioner": "csi.example.com", "volumeBindingMode": "WaitForFirstConsumer"}
    selector = {"matchExpressions": [{"key": "disk", "operator": "Exists", "values": ["ssd"]}]}
    spec = {"storageClassName": "late", "selector": selector, "resources": {"requests": {"storage": "1Gi"}}}
    metadata = {"namespace": "ns", "name": "data"}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    pod = objects.pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    (item,) = evaluate(objects.node("a"), late, claim, pod, options=("--explain", "ns/p"))

    (found,) = item["verdicts"]
    fault = 'values: Invalid value: ["ssd"]: values set must be empty for exists and does not exist'
    text = "error creating internal label selector for claim: ns/data"
    assert found["reasons"] == [f'running "VolumeBinding" filter plugin: {text}: {fault}']
    assert (found["rule"], found["code"]) == ("VolumeBinding", "Error")


def test_a_node_selector_is_compared_as_it_is_written() -> None:
    """kube-scheduler validates none of it."""
    labelled = objects.node("a")
    labelled["metadata"]["labels"]["zone"] = "-x"
    assert evaluate(labelled, objects.node("b"), objects.pod("p", nodeSelector={"zone": "-x"}))[0]["fits"] == ["a"]


def test_without_nodes_the_scheduler_says_so() -> None:
    assert evaluate(objects.pod("p"))[0]["message"] == "no nodes available to schedule pods"
    assert "no nodes available to schedule pods" in show(objects.pod("p"))


# Node by node


def test_one_pod_is_explained_node_by_node() -> None:
    cluster = [objects.node("a", cpu="1"), objects.node("b"), objects.pod("p", cpu="2"), objects.pod("q")]
    (item,) = evaluate(*cluster, options=("--explain", "ns/p"))

    assert item["verdicts"] == [
        {
            "node": "a",
            "fits": False,
            "rule": "NodeResourcesFit",
            "code": "UnschedulableAndUnresolvable",
            "reasons": ["Insufficient cpu"],
            "details": ["needs 2, 1 of 1 free"],
        },
        {"node": "b", "fits": True, "rule": "", "code": "", "reasons": [], "details": []},
    ]
    assert evaluate(*cluster, options=("--explain", "p")) == [item]
    assert [len(entry["verdicts"]) for entry in evaluate(*cluster, options=("-v",))] == [2, 2]
    assert [len(each["verdicts"]) for each in evaluate(*cluster)] == [0, 0]


def test_of_several_alike_the_one_that_was_asked_for_is_explained() -> None:
    pods = [objects.pod(f"web-{i}", owner="web") for i in range(3)]
    (item,) = evaluate(objects.node("n"), *pods, options=("--explain", "web-1"))

    assert (item["pod"], item["count"]) == ("ns/web-1", 1)


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("nobody", "--explain nobody: no such pod among those that could be read"),
        ("bound", "--explain bound: expected a pod that is pending, but it is on n"),
        ("twin", "--explain twin: found ns/twin, other/twin, expected one; name its namespace"),
    ],
)
def test_a_pod_that_cannot_be_explained_is_refused(name: str, complaint: str) -> None:
    twin = objects.pod("twin")
    other = {**twin, "metadata": {"name": "twin", "namespace": "other"}}
    text = json.dumps([objects.node("n"), objects.pod("bound", nodeName="n"), twin, other]).encode()
    outcome = windlass("fit", "-", "--explain", name, stdin=text)

    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"windlass: {complaint}\n")


# Exit codes and options


def test_a_check_fails_only_when_it_is_asked_for() -> None:
    good = json.dumps([objects.node("n"), objects.pod("p")]).encode()
    bad = json.dumps([objects.node("n"), objects.pod("p", cpu="9")]).encode()

    assert windlass("fit", "-", stdin=bad).code == 0
    assert windlass("fit", "-", "--check", stdin=bad).code == 1
    assert windlass("fit", "-", "--check", stdin=good).code == 0


def test_the_scheduler_configuration_is_honoured(tmp_path: Path) -> None:
    path = tmp_path / "profile.yaml"
    path.write_text("""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{schedulerName: batch, plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}}]
""")
    options = ("--scheduler-config-file", str(path))
    big = objects.pod("big", cpu="9", schedulerName="batch")

    assert evaluate(objects.node("n"), big)[0]["fits"] == []
    assert evaluate(objects.node("n"), big, options=options)[0]["fits"] == ["n"]
    assert evaluate(objects.node("n"), big, options=options)[0]["notes"] == []
    path.write_text("kind: KubeSchedulerConfiguration\n")
    outcome = windlass("fit", "-", *options, stdin=json.dumps([objects.node("n")]).encode())
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"windlass: {path}: apiVersion: found None, expected kubescheduler.config.k8s.io/v1\n"


# The table


@pytest.mark.parametrize(
    ("sizes", "conclusion"),
    [
        ((), "No pod is pending."),
        (("1",), "The pending pod fits."),
        (("9",), "The pending pod fits nowhere."),
        (("1", "1"), "Each of the 2 pending pods fits somewhere."),
        (("9", "9"), "None of the 2 pending pods fits anywhere."),
        (("1", "9", "9"), "1 of 3 pending pods fits, 2 fit nowhere."),
        (("1", "1", "9"), "2 of 3 pending pods fit, 1 fits nowhere."),
    ],
)
def test_the_last_line_sums_up(sizes: tuple[str, ...], conclusion: str) -> None:
    pods = [objects.pod(f"p{i}", cpu=cpu) for i, cpu in enumerate(sizes)]

    assert show(objects.node("n"), *pods).splitlines()[-1] == conclusion


def test_many_nodes_are_counted_and_the_first_few_named() -> None:
    assert "6/6    ns/p  n0, n1, n2, n3 and 2 more" in show(
        *(objects.node(f"n{i}") for i in range(6)), objects.pod("p")
    )


def test_colour_changes_nothing_but_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = PodFinding("ns/p", 1, ("ns/p",), None, {"cpu": "1"}, ("a note",), ("n",), 1, "", (), ())
    report = FitReport(1, 0, (finding,), ())
    plain = "\n".join(fit_report.report_lines(report, terminal_output.TextStyle(), 100))
    coloured = "\n".join(fit_report.report_lines(report, terminal_output.TextStyle(colour=True), 100))

    assert "\033[" in coloured
    assert "\033[" not in plain
    for code in ("0", "1", "2", "31;1", "32;1", "33"):
        coloured = coloured.replace(f"\033[{code}m", "")
    assert coloured == plain


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal_output.style_for(Terminal()).colour  # type: ignore[arg-type]
    monkeypatch.setenv("NO_COLOR", "1")
    assert not terminal_output.style_for(Terminal()).colour  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["deep.yaml", "deep.json", "deep.yml"])
@pytest.mark.parametrize(
    "text", ["a: " + "[{" * 100_000, "[" * 100_000, '{"a":' * 100_000], ids=["YAML", "lists", "JSON objects"]
)
def test_a_file_of_a_hundred_thousand_levels_is_refused_with_a_sentence(name: str, text: str, tmp_path: Path) -> None:
    """In a process of its own: what this held once was a fault of segmentation."""
    (tmp_path / name).write_text(text)
    words = [sys.executable, "-m", "windlass", "fit", str(tmp_path / name)]
    run = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith(f"windlass: {tmp_path / name}: ")
    assert "nested" in run.stderr
    assert run.stderr.count("\n") == 1
