"""The call, against a server written in Go: plain and with TLS, slow, broken, gone and back."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from tests.autoscaler.grpc_expander import expander_requests, go_server
from windlass.autoscaler.grpc_expander import expander_query
from windlass.autoscaler.grpc_expander.client import GrpcExpanderClient
from windlass.engine.model import facts
from windlass.engine.model.scale_up_status import BestOptionsResponse
from windlass.errors import InvalidInput
from windlass.selectors import LabelSelector, NodeSelector, NodeSelectorTerm, Operator, Requirement

pytestmark = pytest.mark.xdist_group("expander server")  # one worker builds and starts it


@pytest.fixture(scope="module")
def plain(expander_binary: Path) -> Iterator[go_server.Served]:
    with go_server.serving(expander_binary) as served:
        yield served


class Certificates:
    """An authority and a server's certificate, as files; and the certificate of someone else."""

    def __init__(self, folder: Path) -> None:
        authority, stranger = trustme.CA(), trustme.CA()
        issued = authority.issue_cert("localhost")
        self.authority, self.stranger = folder / "ca.pem", folder / "stranger.pem"
        self.own, self.key = folder / "server.pem", folder / "server.key"
        authority.cert_pem.write_to_path(str(self.authority))
        stranger.cert_pem.write_to_path(str(self.stranger))
        issued.cert_chain_pems[0].write_to_path(str(self.own))
        issued.private_key_pem.write_to_path(str(self.key))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def encrypted(expander_binary: Path, certificates: Certificates) -> Iterator[go_server.Served]:
    with go_server.serving(expander_binary, (certificates.own, certificates.key)) as served:
        yield served


def dial(served: go_server.Served, within_s: float = 60.0) -> GrpcExpanderClient:
    return GrpcExpanderClient(expander_query.parse_address(f"http://127.0.0.1:{served.port}"), within_s=within_s)


# ── Being heard ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_server_sees_options_pods_and_a_node_of_every_group(plain: go_server.Served) -> None:
    plain.tell("answer b")
    assert dial(plain).best_options(expander_requests.ask()) == expander_requests.opinion("b")
    heard = plain.on_event()
    assert [(item["group"], item["nodes"], item["debug"]) for item in heard["options"]] == [
        ("a", 2, "a"),
        ("b", 2, "b"),
    ]
    for option in heard["options"]:
        assert [(entry["metadata"]["name"], entry["metadata"]["uid"]) for entry in option["pods"]] == [
            ("p0", "uid-p0"),
            ("p1", "uid-p1"),
        ]
    assert {group: one["metadata"]["name"] for group, one in heard["nodes"].items()} == {
        "a": "a",
        "b": "b",
        "other": "other",
    }
    assert heard["has_deadline"]
    assert heard["unknown"] == 0


def test_the_server_reads_a_pod_as_kubernetes_spells_it(plain: go_server.Served) -> None:
    web = LabelSelector.of([Requirement("app", Operator.IN, ("web",))])
    zones = NodeSelectorTerm((Requirement("zone", Operator.IN, ("a", "b")),), ())
    spec = facts.PodSpec(
        requests=(("cpu", 1500), ("memory", 3 * expander_requests.GIB // 2), ("nvidia.com/gpu", 1)),
        node_selector=(("disk", "ssd"),),
        node_affinity=NodeSelector((zones,)),
        tolerations=(facts.Toleration("gpu", "Exists", "", "NoSchedule"),),
        host_ports=(facts.HostPort("0.0.0.0", "TCP", 8080),),
        spread=(facts.SpreadConstraint(facts.ZONE, 1, web, 2, honor_affinity=False, honor_taints=True),),
        affinity=(facts.PodAffinityTerm(facts.ZONE, web, ("default",)),),
        anti_affinity=(facts.PodAffinityTerm(facts.HOSTNAME, web, (), LabelSelector()),),
        volumes=(facts.Volume("data", "persistentVolumeClaim", "claim", read_only=True),),
        priority=0,
        claims=(facts.PodClaim("device", "shared-claim"),),
    )
    asked = expander_requests.pod(
        "p0", spec=spec, labels={"app": "web"}, annotations={"note": "é"}, grace_s=30.0, unschedulable_since_s=1.7e9 + 5
    )
    plain.tell("answer a")
    dial(plain).best_options(expander_requests.ask(["a"], [asked]))
    ((heard,),) = [option["pods"] for option in plain.on_event()["options"]]
    selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}
    assert heard["metadata"] == {
        "name": "p0",
        "namespace": "default",
        "uid": "uid-p0",
        "labels": {"app": "web"},
        "annotations": {"note": "é"},
        "creationTimestamp": "2023-11-14T22:13:20Z",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-web", "controller": True}
        ],
    }
    assert heard["spec"] == {
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "claim", "readOnly": True}}],
        "containers": [
            {
                "name": "all",
                "ports": [{"hostPort": 8080, "containerPort": 8080, "protocol": "TCP", "hostIP": "0.0.0.0"}],
                "resources": {"requests": {"cpu": "1500m", "memory": "1536Mi", "nvidia.com/gpu": "1"}},
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "nodeSelector": {"disk": "ssd"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]}
                    ]
                }
            },
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": selector, "namespaces": ["default"], "topologyKey": facts.ZONE}
                ]
            },
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"labelSelector": selector, "topologyKey": facts.HOSTNAME, "namespaceSelector": {}}
                ]
            },
        },
        "schedulerName": "default-scheduler",
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "priority": 0,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": facts.ZONE,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
                "minDomains": 2,
                "nodeAffinityPolicy": "Ignore",
                "nodeTaintsPolicy": "Honor",
            }
        ],
        "resourceClaims": [{"name": "device", "resourceClaimName": "shared-claim"}],
    }
    assert heard["status"] == {
        "phase": "Pending",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": "2023-11-14T22:13:25Z",
                "reason": "Unschedulable",
            }
        ],
    }


def test_the_server_reads_a_node_as_kubernetes_spells_it(plain: go_server.Served) -> None:
    template = facts.Node(
        "template-a",
        "uid-a",
        {"zone": "a"},
        {"windlass.internal/price-per-hour": "0.5"},
        taints=(facts.Taint("gpu", "yes", "NoSchedule"),),
        allocatable=(("cpu", 3920), ("memory", 15 * expander_requests.GIB), ("pods", 110)),
        capacity=(("cpu", 4000), ("memory", 16 * expander_requests.GIB), ("pods", 110)),
        declared_features=frozenset({"B", "A"}),
        provider_id="id://a",
        conditions=(facts.Condition("Ready", "True", expander_requests.CREATED_S, "KubeletReady"),),
    )
    plain.tell("answer a")
    dial(plain).best_options(replace(expander_requests.ask(["a"]), templates={"a": template}))
    heard = plain.on_event()["nodes"]["a"]
    assert heard["metadata"] == {
        "name": "template-a",
        "uid": "uid-a",
        "labels": {"zone": "a"},
        "annotations": {"windlass.internal/price-per-hour": "0.5"},
    }
    assert heard["spec"] == {"providerID": "id://a", "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]}
    assert heard["status"]["allocatable"] == {"cpu": "3920m", "memory": "15Gi", "pods": "110"}
    assert heard["status"]["capacity"] == {"cpu": "4", "memory": "16Gi", "pods": "110"}
    assert heard["status"]["declaredFeatures"] == ["A", "B"]
    assert [(item["type"], item["status"], item["reason"]) for item in heard["status"]["conditions"]] == [
        ("Ready", "True", "KubeletReady")
    ]


def test_more_pods_than_a_window_holds_are_sent_and_echoed(plain: go_server.Served) -> None:
    """The server echoes what it was sent: both ways it is more than HTTP/2 lets through without being asked again."""
    pods = [expander_requests.pod(f"p{number}", annotations={"filler": "x" * 900}) for number in range(2500)]
    plain.tell("answer b a")
    question = expander_requests.ask(pods=pods)
    assert dial(plain).best_options(question) == BestOptionsResponse(question.about, ("b", "a"))
    assert [len(option["pods"]) for option in plain.on_event()["options"]] == [2500, 2500]


# ── TLS ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("trusted", ["authority", "own"])
def test_a_server_is_believed_by_its_authority_or_by_its_own_certificate(
    encrypted: go_server.Served, certificates: Certificates, trusted: str
) -> None:
    encrypted.tell("answer a")
    at = expander_query.parse_address(f"localhost:{encrypted.port}")
    assert GrpcExpanderClient(at, str(getattr(certificates, trusted)), 60.0).best_options(
        expander_requests.ask()
    ) == expander_requests.opinion("a")


@pytest.mark.parametrize(
    ("host", "trusted", "said"),
    [
        ("localhost", "stranger", "CERTIFICATE_VERIFY_FAILED"),
        ("127.0.0.1", "authority", "Hostname Verification Check failed"),
    ],
)
def test_a_server_that_cannot_prove_who_it_is_is_told_nothing(
    encrypted: go_server.Served, certificates: Certificates, host: str, trusted: str, said: str
) -> None:
    encrypted.tell("answer a")
    at = expander_query.parse_address(f"{host}:{encrypted.port}")
    opinion = GrpcExpanderClient(at, str(getattr(certificates, trusted)), 60.0).best_options(expander_requests.ask())
    assert opinion.failure.startswith("Unavailable: ")
    assert f":{encrypted.port}: " in opinion.failure
    assert said in opinion.failure
    assert encrypted.count_calls() == 0


def test_plain_words_to_an_encrypted_server_are_no_answer(encrypted: go_server.Served) -> None:
    assert dial(encrypted).best_options(expander_requests.ask()).failure.startswith("Unavailable: ")


def test_a_certificate_that_cannot_be_read_is_refused_at_once(tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate\n")
    for path in (nonsense, tmp_path / "missing.pem"):
        with pytest.raises(InvalidInput, match=r"--grpc-expander-cert: found .*expected a file of PEM certificates"):
            GrpcExpanderClient(expander_query.parse_address("localhost:1"), str(path))


# ── Trouble ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_server_that_hangs_is_given_up(plain: go_server.Served) -> None:
    plain.tell("hang")
    assert dial(plain, 0.5).best_options(expander_requests.ask()).failure == "DeadlineExceeded: no answer within 0.5 s"


def test_an_error_is_told_in_the_servers_words(plain: go_server.Served) -> None:
    plain.tell("fail prices unknown: 100% é")
    assert dial(plain).best_options(expander_requests.ask()).failure == "Internal: prices unknown: 100% é"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("ff", id="half a number"),
        pytest.param("0a05", id="more announced than sent"),
        pytest.param("0a030a01ff", id="no UTF-8"),
        pytest.param("0a020a05", id="an option that is cut off"),
        pytest.param("0b", id="a group"),
        pytest.param("00", id="field 0"),
    ],
)
def test_what_is_no_answer_at_all_counts_as_none(plain: go_server.Served, answer: str) -> None:
    plain.tell(f"raw {answer}")
    failure = dial(plain).best_options(expander_requests.ask()).failure
    assert failure.startswith("expected a BestOptionsResponse: ")


def test_fields_that_nobody_knows_are_passed_over(plain: go_server.Served) -> None:
    plain.tell("raw 0a050a01623063 0a00 1a0161 2001")
    assert dial(plain).best_options(expander_requests.ask()) == expander_requests.opinion("b", "")


def test_a_server_that_went_and_came_back_is_asked_as_before(expander_binary: Path) -> None:
    with go_server.serving(expander_binary) as served:
        served.tell("answer a")
        server = dial(served)
        assert server.best_options(expander_requests.ask()) == expander_requests.opinion("a")
    failure = server.best_options(expander_requests.ask()).failure
    assert failure.startswith("Unavailable: ")
    assert f"127.0.0.1:{served.port}: Failed to connect" in failure
    with go_server.serving(expander_binary, port=served.port) as served:
        served.tell("answer b")
        assert server.best_options(expander_requests.ask()) == expander_requests.opinion("b")


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", id="HTTP/1.1"),
        pytest.param(b"\x00\x00\x12\x04\x00\x00\x00\x00\x00", id="half a frame"),
        pytest.param(bytes(range(256)) * 300, id="noise"),
    ],
)
def test_someone_who_speaks_no_grpc_gives_no_answer(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        answering = threading.Thread(target=_answer_once, args=(listening, said))
        answering.start()
        at = expander_query.parse_address(f"http://127.0.0.1:{listening.getsockname()[1]}")
        opinion = GrpcExpanderClient(at, within_s=60.0).best_options(expander_requests.ask())
        answering.join()
    assert opinion.failure.startswith("Unavailable: ")


def _answer_once(listening: socket.socket, said: bytes) -> None:
    calling, _ = listening.accept()
    with calling:
        calling.recv(2**16)
        with contextlib.suppress(OSError):  # whoever called may have gone by now
            calling.sendall(said)
            calling.shutdown(socket.SHUT_WR)
