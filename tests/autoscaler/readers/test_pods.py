import copy
from typing import Any

import msgspec
import pytest

from windlass import klog, selectors
from windlass.autoscaler.readers import pods, workloads
from windlass.engine.model import facts
from windlass.kube import resources, scheme
from windlass.kube.models import pods as pod_models
from windlass.selectors import LabelSelector, Operator, Requirement

Json = dict[str, Any]

DAEMON_TOLERATIONS = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]


def pod(spec: Json | None = None, *, name: str = "p", namespace: str = "ns", **more: Any) -> pod_models.Pod:
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    return scheme.decode_as(pod_models.Pod, {"metadata": metadata, "spec": spec or {}, **more})


def read(spec: Json | None = None, *, pending: bool = False, **more: Any) -> facts.Pod:
    return pods.PodReader(remembered=100).read(pod(spec, **more), pending=pending)


def test_identity_times_and_owner() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u0"},
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u1", "controller": True},
    ]
    seen = read(
        {"schedulerName": "mine", "restartPolicy": "Never", "terminationGracePeriodSeconds": 30, "priority": 7},
        metadata={
            "uid": "u",
            "labels": {"a": "b"},
            "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "network/address": "10.0.0.7"},
            "ownerReferences": owners,
            "creationTimestamp": "1970-01-01T00:01:00Z",
            "deletionTimestamp": "1970-01-01T00:02:00Z",
        },
        status={"phase": "Running", "nominatedNodeName": "n2"},
    )

    assert seen.key == "ns/p"
    assert (seen.uid, seen.labels) == ("u", {"a": "b"})
    assert seen.annotations == {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    assert seen.owner == facts.Owner("apps/v1", "ReplicaSet", "r", "u1")
    assert (seen.created_s, seen.deleted_s, seen.grace_s) == (60.0, 120.0, 30.0)
    assert (seen.scheduler, seen.restart_policy, seen.phase, seen.nominated_node) == ("mine", "Never", "Running", "n2")
    assert seen.spec.priority == 7


def test_what_the_api_would_fill_in() -> None:
    seen = read()

    assert (seen.scheduler, seen.restart_policy, seen.phase) == ("default-scheduler", "Always", "Pending")
    assert (seen.owner, seen.grace_s, seen.deleted_s, seen.node_name) == (None, None, None, "")
    assert seen.spec == facts.PodSpec()


def test_a_bound_pod_is_on_its_node_and_a_pending_one_asks_for_it() -> None:
    bound, pending = read({"nodeName": "n"}), read({"nodeName": "n"}, pending=True)

    assert (bound.node_name, bound.spec.node_name) == ("n", "")
    assert (pending.node_name, pending.spec.node_name) == ("", "n")


def test_unschedulable_since_the_scheduler_said_so() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    said = {**condition, "lastTransitionTime": "1970-01-01T00:00:09Z"}
    gated = {**said, "reason": "SchedulingGated"}

    assert read(status={"conditions": [said]}).unschedulable_since_s == 9.0
    assert read(status={"conditions": [gated]}).unschedulable_since_s is None
    assert read(status={"conditions": [condition]}, metadata={"creationTimestamp": "1970-01-01T00:00:05Z"}) == read(
        status={"conditions": [{**said, "lastTransitionTime": "1970-01-01T00:00:05Z"}]},
        metadata={"creationTimestamp": "1970-01-01T00:00:05Z"},
    )


@pytest.mark.parametrize(
    ("status", "health"),
    [
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}, facts.PodHealth.READY),
        ({"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}, facts.PodHealth.UNREADY),
        ({"phase": "Running"}, facts.PodHealth.UNREADY),
        ({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}, facts.PodHealth.NOT_STARTED),
        ({}, facts.PodHealth.NOT_STARTED),
    ],
)
def test_the_health_of_a_bound_pod(status: Json, health: facts.PodHealth) -> None:
    assert read({"nodeName": "n"}, status=status).health is health
    assert read(status=status).health is facts.PodHealth.READY  # bound to no node: nothing evicts it


@pytest.mark.parametrize(
    ("label", "behavior"),
    [
        ("skip", facts.DrainBehavior.SKIP),
        ("Skip", facts.DrainBehavior.SKIP),
        ("wait-completed", facts.DrainBehavior.WAIT_COMPLETED),
        ("WaitCompleted", facts.DrainBehavior.WAIT_COMPLETED),
        ("drain", facts.DrainBehavior.DRAIN),
        ("", facts.DrainBehavior.DRAIN),
    ],
)
def test_the_drain_label_as_cluster_api_reads_it(label: str, behavior: facts.DrainBehavior) -> None:
    assert read(metadata={"labels": {"cluster.x-k8s.io/drain": label}}).drain_behavior is behavior


def test_requests_keep_what_the_scheduler_counts_and_drop_zeros() -> None:
    wanted = {
        "cpu": "1500u",
        "memory": "1.5",
        "ephemeral-storage": "1Ki",
        "hugepages-2Mi": "4Mi",
        "nvidia.com/gpu": 1,
        "attachable-volumes-aws-ebs": 2,
        "my.kubernetes.io/thing": 3,
        "example.com/none": 0,
        "pods": 5,
        "storage": 6,
        "requests.example.com/x": 7,
        "Example.com/x": 8,
        "example.com/-x": 9,
    }
    seen = read({"containers": [{"name": "c", "resources": {"requests": wanted}}]})

    assert dict(seen.spec.requests) == {
        "cpu": 2,
        "memory": 2,
        "ephemeral-storage": 1024,
        "hugepages-2Mi": 4 * 2**20,
        "nvidia.com/gpu": 1,
        "attachable-volumes-aws-ebs": 2,
        "my.kubernetes.io/thing": 3,
    }
    assert list(seen.spec.requests) == sorted(seen.spec.requests)


def test_a_request_beyond_all_machines_still_adds_up_in_an_int64() -> None:
    seen = read({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1e30", "memory": "9E"}}}]})

    assert all(0 < amount * 200 < 2**63 for _, amount in seen.spec.requests)


def test_a_resize_under_way_counts_for_a_bound_pod_only() -> None:
    spec = {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
    status = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]}

    assert dict(read(spec, status=status).spec.requests) == {"cpu": 3000}
    assert dict(read(spec, status=status, pending=True).spec.requests) == {"cpu": 1000}


def test_host_ports_of_what_keeps_running() -> None:
    def container(port: int | None, **more: Any) -> Json:
        return {"name": "c", "ports": [{"containerPort": 80, "hostPort": port, **more}]}

    seen = read(
        {
            "containers": [container(80), container(None), container(0), container(81, hostIP="::1", protocol="UDP")],
            "initContainers": [container(90), {**container(91), "restartPolicy": "Always"}],
        }
    )

    assert seen.spec.host_ports == (
        facts.HostPort("0.0.0.0", "TCP", 80),
        facts.HostPort("::1", "UDP", 81),
        facts.HostPort("0.0.0.0", "TCP", 91),
    )


def test_tolerations_with_their_defaults() -> None:
    seen = read({"tolerations": [{"key": "a", "value": "b"}, {"operator": "Exists", "effect": "NoExecute"}]})

    assert seen.spec.tolerations == (
        facts.Toleration("a", "Equal", "b", ""),
        facts.Toleration("", "Exists", "", "NoExecute"),
    )


def test_node_selector_and_affinity() -> None:
    required = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "z", "operator": "Exists"}]}]}
    seen = read(
        {
            "nodeSelector": {"b": "2", "a": "1"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        }
    )

    assert seen.spec.node_selector == (("a", "1"), ("b", "2"))
    term = selectors.NodeSelectorTerm((Requirement("z", Operator.EXISTS),))
    assert seen.spec.node_affinity == selectors.NodeSelector((term,))


@pytest.mark.parametrize(
    ("said", "namespaces", "namespace_selector"),
    [
        ({}, ("ns",), None),
        ({"namespaces": []}, ("ns",), None),
        ({"namespaces": ["b", "a", "b"]}, ("a", "b"), None),
        ({"namespaceSelector": {}}, (), selectors.EVERYTHING),
        ({"namespaces": ["a"], "namespaceSelector": {}}, ("a",), selectors.EVERYTHING),
    ],
)
def test_namespaces_of_an_affinity_term(
    said: Json, namespaces: tuple[str, ...], namespace_selector: LabelSelector | None
) -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, **said}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    seen = read({"affinity": {"podAffinity": affinity, "podAntiAffinity": affinity}})

    selector = LabelSelector((Requirement("a", Operator.IN, ("b",)),))
    expected = facts.PodAffinityTerm("zone", selector, namespaces, namespace_selector)
    assert seen.spec.affinity == seen.spec.anti_affinity == (expected,)


@pytest.mark.parametrize(("said", "selector"), [({}, None), ({"labelSelector": {}}, selectors.EVERYTHING)])
def test_no_selector_and_an_empty_one_are_told_apart(said: Json, selector: LabelSelector | None) -> None:
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **said}]}
    spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **said}
    seen = read({"affinity": {"podAffinity": terms}, "topologySpreadConstraints": [spread]})

    assert seen.spec.affinity[0].selector == seen.spec.spread[0].selector == selector


def test_hard_spread_constraints_with_their_defaults() -> None:
    def constraint(**more: Any) -> Json:
        return {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", **more}

    seen = read(
        {
            "topologySpreadConstraints": [
                constraint(),
                constraint(whenUnsatisfiable="ScheduleAnyway"),
                constraint(minDomains=3, nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor"),
            ]
        }
    )

    assert seen.spec.spread == (
        facts.SpreadConstraint("zone", 2, None),
        facts.SpreadConstraint("zone", 2, None, min_domains=3, honor_affinity=False, honor_taints=True),
    )


def test_match_label_keys_narrow_a_spread_constraint_to_the_pods_own_labels() -> None:
    constraint = {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "a"}},
        "matchLabelKeys": ["hash", "absent"],
    }
    reader = pods.PodReader(remembered=100)
    found = [
        reader.read(pod({"topologySpreadConstraints": [constraint]}, metadata={"labels": {"hash": value}}))
        for value in ("1", "2")
    ]

    for value, seen in zip(("1", "2"), found, strict=True):
        wanted = (Requirement("app", Operator.IN, ("a",)), Requirement("hash", Operator.IN, (value,)))
        assert seen.spec.spread[0].selector == LabelSelector(wanted)


def test_volumes_that_someone_looks_at() -> None:
    rbd = {"pool": "p", "image": "i", "monitors": ["m2", "m1"], "readOnly": True}
    seen = read(
        {
            "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "c", "readOnly": True}},
                {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
                {"name": "c", "emptyDir": {}},
                {"name": "d", "emptyDir": {"medium": "Memory"}},
                {"name": "e", "hostPath": {"path": "/"}},
                {"name": "f", "gcePersistentDisk": {"pdName": "g", "readOnly": True}},
                {"name": "g", "awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}},
                {"name": "h", "iscsi": {"iqn": "q"}},
                {"name": "i", "rbd": rbd},
                {"name": "j", "csi": {"driver": "d"}},
                {"name": "k", "configMap": {"name": "x"}},
                {"name": "l", "secret": {"secretName": "x"}},
                {"name": "m", "projected": {"sources": []}},
                {"name": "n", "downwardAPI": {}},
            ]
        }
    )

    gce, ebs = "pd.csi.storage.gke.io", "ebs.csi.aws.com"
    assert seen.spec.volumes == (
        facts.Volume("a", "persistentVolumeClaim", claim="c", read_only=True),
        facts.Volume("b", "ephemeral", claim="p-b"),
        facts.Volume("c", "emptyDir"),
        facts.Volume("d", "emptyDir", medium="Memory"),
        facts.Volume("e", "hostPath"),
        facts.Volume(
            "f",
            "gcePersistentDisk",
            read_only=True,
            identity=("g",),
            driver=gce,
            handle="projects/UNSPECIFIED/zones/UNSPECIFIED/disks/g",
        ),
        facts.Volume("g", "awsElasticBlockStore", identity=("aws://z/vol-1",), driver=ebs, handle="vol-1"),
        facts.Volume("h", "iscsi", identity=("q",)),
        facts.Volume("i", "rbd", read_only=True, identity=("p", "i", "m2", "m1")),
        facts.Volume("j", "csi", driver="d"),
    )


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        ({"hostNetwork": True, "hostUsers": False}, {"UserNamespacesHostNetworkSupport"}),
        ({"hostNetwork": True}, set()),
        ({"hostUsers": False}, set()),
        (
            {"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            {"RestartAllContainersOnContainerExits"},
        ),
        (
            {"initContainers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
            {"RestartAllContainersOnContainerExits"},
        ),
        ({"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]}, set()),
    ],
)
def test_features_that_the_node_must_declare(spec: Json, features: set[str]) -> None:
    assert read(spec).spec.required_features == features


# ── Templates ────────────────────────────────────────────────────────────────────────────────────────────────────


def deployed(number: int) -> Json:
    """The spec of a pod of a Deployment, with what the API server and the scheduler make different in each."""
    token = f"kube-api-access-x{number}y"
    mounts = [{"name": "data", "mountPath": "/d"}, {"name": token, "mountPath": "/var/run/secrets"}]
    return {
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": token, "projected": {"sources": []}}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}, "volumeMounts": mounts}],
        "nodeName": f"node-{number}",
        "tolerations": DAEMON_TOLERATIONS,
    }


def test_pods_of_one_template_share_one_spec_wherever_they_are() -> None:
    reader = pods.PodReader(remembered=100)
    found = [reader.read(pod(deployed(number), name=f"p{number}")) for number in range(5)]

    assert len({id(seen.spec) for seen in found}) == 1
    assert len({seen.digest for seen in found}) == 1
    assert [seen.node_name for seen in found] == [f"node-{number}" for number in range(5)]


def test_a_label_that_happens_to_be_the_nodes_name_still_counts() -> None:
    reader = pods.PodReader(remembered=100)
    specs = [{"nodeSelector": {"nodeName": name}, "nodeName": name} for name in ("n1", "n2")]
    found = [reader.read(pod(spec)) for spec in specs]

    assert [seen.spec.node_selector for seen in found] == [(("nodeName", "n1"),), (("nodeName", "n2"),)]


def test_a_claim_named_like_a_token_volume_still_counts() -> None:
    reader = pods.PodReader(remembered=100)
    names = ["kube-api-access-aaaaa", "kube-api-access-bbbbb"]
    found = [reader.read(pod({"volumes": [{"name": name, "ephemeral": {}}]})) for name in names]

    assert [seen.spec.volumes[0].claim for seen in found] == ["p-kube-api-access-aaaaa", "p-kube-api-access-bbbbb"]


def test_pods_of_one_template_do_not_share_what_is_their_own() -> None:
    reader = pods.PodReader(remembered=100)
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}
    spec = {"volumes": [{"name": "v", "ephemeral": {}}], "affinity": {"podAffinity": affinity}}
    first, second = reader.read(pod(spec, name="a")), reader.read(pod(spec, name="b", namespace="other"))

    assert (first.spec.volumes[0].claim, second.spec.volumes[0].claim) == ("a-v", "b-v")
    assert (first.spec.affinity[0].namespaces, second.spec.affinity[0].namespaces) == (("ns",), ("other",))


def test_reading_does_not_depend_on_what_was_read_before() -> None:
    reader = pods.PodReader(remembered=3)
    specs = [
        {"nodeName": f"n{i % 3}", "priority": i % 5, "volumes": [{"name": "v", "ephemeral": {}}]} for i in range(40)
    ]
    for i, spec in enumerate(specs):
        model = pod(spec, name=f"p{i}")
        for pending in (False, True):
            assert reader.read(model, pending=pending) == pods.PodReader(remembered=100).read(model, pending=pending)


def daemon(number: int) -> pod_models.Pod:
    named = {"key": "metadata.name", "operator": "In", "values": [f"node-{number}"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [named]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return pod({**deployed(number), "affinity": affinity}, name=f"agent-{number}")


def test_templates_of_nodes_that_are_gone_are_forgotten_and_read_again_alike() -> None:
    reader = pods.PodReader(remembered=1_000_000)
    first = reader.read(daemon(0))
    reader.forget_unused()
    assert reader.read(daemon(0)).spec is first.spec, "it was read in the generation before"
    for _ in range(2):
        reader.forget_unused()
    again = reader.read(daemon(0))
    assert again.spec is not first.spec
    assert again == first


# ── Digest ───────────────────────────────────────────────────────────────────────────────────────────────────────

SPEC: Json = {
    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}],
    "volumes": [{"name": "v", "emptyDir": {}}],
    "securityContext": {},
}


def changed(path: list[Any], value: Any) -> Json:
    spec = copy.deepcopy(SPEC)
    place: Any = spec
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return spec


SAME = {
    "environment": changed(["containers", 0, "env"], [{"name": "A", "value": "1"}]),
    "hostname": changed(["hostname"], "h"),
    "node": changed(["nodeName"], "n"),
    "projected volume": changed(["volumes"], [{"name": "p", "projected": {}}, {"name": "v", "emptyDir": {}}]),
    "spelling of an amount": changed(["containers", 0, "resources", "requests"], {"cpu": "1000m", "memory": "1024Mi"}),
    "empty list": changed(["tolerations"], []),
    "empty map": changed(["nodeSelector"], {}),
    "null": changed(["affinity"], None),
}
OTHER = {
    "image": changed(["containers", 0, "image"], "j"),
    "amount": changed(["containers", 0, "resources", "requests", "cpu"], "2"),
    "limit": changed(["containers", 0, "resources", "limits"], {"cpu": "2"}),
    "volume": changed(["volumes"], [{"name": "v", "hostPath": {}}]),
    "no volume": changed(["volumes"], []),
    "a struct that is set": changed(["affinity"], {}),
    "toleration": changed(["tolerations"], [{"operator": "Exists"}]),
    "subdomain": changed(["subdomain"], "s"),
}


@pytest.mark.parametrize("difference", SAME)
def test_digest_passes_over(difference: str) -> None:
    assert read(SAME[difference]).digest == read(SPEC).digest


@pytest.mark.parametrize("difference", OTHER)
def test_digest_tells(difference: str) -> None:
    assert read(OTHER[difference]).digest != read(SPEC).digest


def test_digest_passes_over_mounts_of_projected_volumes() -> None:
    spec = changed(["volumes"], [{"name": "v", "emptyDir": {}}, {"name": "p", "projected": {}}])
    spec["containers"][0]["volumeMounts"] = [{"name": "p", "mountPath": "/p"}]

    assert read(spec).digest == read(SPEC).digest


def test_a_pending_pod_that_names_a_node_is_like_no_other() -> None:
    named, free = read({**SPEC, "nodeName": "n"}, pending=True), read(SPEC, pending=True)

    assert named.digest != free.digest


def test_spacing_of_the_text_changes_nothing() -> None:
    compact = msgspec.json.encode({"metadata": {"name": "p"}, "spec": deployed(1)})
    spaced = msgspec.json.format(compact, indent=2)
    reader = pods.PodReader(remembered=100)
    first, second = (reader.read(scheme.decode_as(pod_models.Pod, text)) for text in (compact, spaced))

    assert first == second
    assert first.spec is second.spec


@pytest.mark.parametrize("levels", [600, 800])
def test_what_is_nested_deeper_than_anything_that_counts_costs_no_pod(levels: int) -> None:
    before = klog.UNEXPECTED_ERRORS.counts()
    deep = b'{"a":' * levels + b"1" + b"}" * levels
    text = b'{"metadata":{"name":"web"},"spec":{"nodeName":"n","volumes":[{"name":"v","future":%s}]}}' % deep
    seen, complaint = pods.read_pod_with_warning(resources.PODS.decode(text))
    assert (seen.name, seen.node_name) == ("web", "n")
    assert str(complaint) == "Pod web: spec: found 'more levels', expected at most 100"

    own = b'{"metadata":{"name":"d"},"spec":{"template":{"spec":{"volumes":[{"name":"v","future":%s}]}}}}' % deep
    _, of_daemons = workloads.read_daemon_set_with_warning(resources.DAEMON_SETS.decode(own))
    assert str(of_daemons) == "DaemonSet d: spec.template.spec: found 'more levels', expected at most 100"
    assert klog.UNEXPECTED_ERRORS.counts() == before


# DaemonSet pods: the controller pins each to its node


def pin(*nodes: str) -> Json:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(nodes)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def selector_of(node: str) -> selectors.NodeSelector:
    named = Requirement("metadata.name", Operator.IN, (node,))
    return selectors.NodeSelector((selectors.NodeSelectorTerm((), (named,)),))


def daemon_pod(node: str, *, named: str | None = None, kind: str = "DaemonSet", **spec: Any) -> pod_models.Pod:
    owner = {"apiVersion": "apps/v1", "kind": kind, "name": "d", "uid": "u", "controller": True}
    bound = {"nodeName": node} if node else {}
    whole = {"affinity": pin(node if named is None else named), **bound, "tolerations": DAEMON_TOLERATIONS, **spec}
    return pod(whole, metadata={"ownerReferences": [owner], "uid": f"on {node}"})


def test_bound_daemonset_pods_of_all_nodes_share_one_spec_and_one_digest() -> None:
    reader = pods.PodReader(remembered=100)
    one, other = reader.read(daemon_pod("n1")), reader.read(daemon_pod("n2"))

    assert (one.node_name, other.node_name) == ("n1", "n2")
    assert one.spec is other.spec
    assert one.digest == other.digest
    assert one.spec == facts.PodSpec(tolerations=one.spec.tolerations)


def test_a_pending_daemonset_pod_keeps_the_node_that_it_is_pinned_to() -> None:
    reader = pods.PodReader(remembered=100)
    reader.read(daemon_pod("n1"))
    one, other = reader.read(daemon_pod("", named="n1")), reader.read(daemon_pod("", named="n2"))
    as_pending = reader.read(daemon_pod("n1"), pending=True)

    assert (one.spec.node_affinity, other.spec.node_affinity) == (selector_of("n1"), selector_of("n2"))
    assert as_pending.spec.node_affinity == selector_of("n1")
    assert len({one.digest, other.digest, reader.read(daemon_pod("n1")).digest}) == 3


def test_a_daemonset_pod_on_another_node_than_it_is_pinned_to_keeps_its_affinity() -> None:
    reader = pods.PodReader(remembered=100)
    here, elsewhere = reader.read(daemon_pod("n1")), reader.read(daemon_pod("n2", named="n1"))

    assert here.spec.node_affinity is None
    assert elsewhere.spec.node_affinity == selector_of("n1")
    assert here.digest != elsewhere.digest


@pytest.mark.parametrize(
    "affinity",
    [
        pin("n1", "n2"),
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]}]}}},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            *pin("n1")["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"],
            {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}},
        {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "Exists"}],
             "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}},
    ],
)  # fmt: skip
def test_other_node_affinities_of_daemonset_pods_stay_as_they_are(affinity: Json) -> None:
    bound, plain = daemon_pod("n1", affinity=affinity), pod({"affinity": affinity, "nodeName": "n1"})
    reader = pods.PodReader(remembered=100)

    assert reader.read(bound).spec.node_affinity == reader.read(plain).spec.node_affinity is not None


def test_a_pod_that_no_daemonset_owns_keeps_the_node_that_it_is_pinned_to() -> None:
    assert read({"affinity": pin("n1"), "nodeName": "n1"}).spec.node_affinity == selector_of("n1")
    seen = pods.PodReader(remembered=100).read(daemon_pod("n1", kind="ReplicaSet"))
    assert seen.spec.node_affinity == selector_of("n1")


def test_a_pinned_daemonset_pod_keeps_its_other_affinities() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "d"}}}
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    preferred = [{"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]
    pinned = pin("n1")
    pinned["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    seen = pods.PodReader(remembered=100).read(daemon_pod("n1", affinity={**pinned, "podAntiAffinity": apart}))

    assert seen.spec.node_affinity is None
    assert [pod_affinity_term.topology_key for pod_affinity_term in seen.spec.anti_affinity] == [
        "kubernetes.io/hostname"
    ]
