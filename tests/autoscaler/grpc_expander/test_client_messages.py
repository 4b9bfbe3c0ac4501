"""Messages: what is sent of pods and nodes, and what arbitrary bytes from a server are taken for."""

import contextlib
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from tests.autoscaler.grpc_expander import expander_requests
from tools import protobuf_modules
from windlass.autoscaler.grpc_expander import client, expander_pb2, kubernetes_pb2
from windlass.engine.expanders.grpc import BestOptionsRequest
from windlass.engine.model import facts
from windlass.selectors import LabelSelector, NodeSelector, NodeSelectorTerm


def read_pods(question: BestOptionsRequest) -> list[list[kubernetes_pb2.Pod]]:
    """The pods of each option, as a server reads them."""
    request = expander_pb2.BestOptionsRequest.FromString(client.encode_request(question))
    return [[kubernetes_pb2.Pod.FromString(content) for content in option.podBytes] for option in request.options]


def read_pod(pod: facts.Pod) -> kubernetes_pb2.Pod:
    ((read,),) = read_pods(expander_requests.ask(["a"], [pod]))
    return read


def answer(groups: list[str]) -> bytes:
    options = [expander_pb2.Option(nodeGroupId=group, nodeCount=1) for group in groups]
    return expander_pb2.BestOptionsResponse(options=options).SerializeToString()


def test_generated_modules_are_those_of_their_definitions(tmp_path: Path) -> None:
    written = protobuf_modules.generate(tmp_path)
    stale = [path.name for path in written if path.read_text() != (protobuf_modules.FOLDER / path.name).read_text()]
    assert len(written) == 4
    assert stale == [], "run `make reference`"


def test_pods_that_options_share_are_written_for_each() -> None:
    pods = [expander_requests.pod(f"p{number}") for number in range(3)]
    read = read_pods(expander_requests.ask(["a", "b", "c"], pods))
    assert [[(pod.metadata.name, pod.metadata.uid) for pod in option] for option in read] == [
        [("p0", "uid-p0"), ("p1", "uid-p1"), ("p2", "uid-p2")]
    ] * 3
    assert {pod.metadata.namespace for option in read for pod in option} == {"default"}


@pytest.mark.parametrize("change", [{"grace_s": 1.0}, {"labels": {"a": "b"}}, {"node_name": "n"}, {"phase": "Running"}])
def test_pods_that_differ_share_nothing(change: dict[str, object]) -> None:
    plain, other = expander_requests.pod("plain"), expander_requests.pod("other", **change)
    ((first, second),) = read_pods(expander_requests.ask(["a"], [plain, other]))
    assert first == read_pod(plain)
    assert second == read_pod(other)
    second.metadata.name, second.metadata.uid = first.metadata.name, first.metadata.uid
    assert first != second


def test_zero_and_empty_differ_from_unset() -> None:
    term = facts.PodAffinityTerm(facts.ZONE, None, ("default",), LabelSelector())
    zero = read_pod(expander_requests.pod("p", spec=facts.PodSpec(priority=0, affinity=(term,)), grace_s=0.0)).spec
    assert (zero.HasField("priority"), zero.HasField("terminationGracePeriodSeconds")) == (True, True)
    (sent,) = zero.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution
    assert (sent.HasField("labelSelector"), sent.HasField("namespaceSelector")) == (False, True)
    unset = read_pod(expander_requests.pod("p", spec=facts.PodSpec(), created_s=0.0))
    assert (unset.spec.HasField("priority"), unset.spec.HasField("terminationGracePeriodSeconds")) == (False, False)
    assert (unset.spec.HasField("affinity"), unset.metadata.HasField("creationTimestamp")) == (False, False)


def test_a_node_affinity_that_nothing_matches_is_not_one_that_is_missing() -> None:
    invalid = NodeSelectorTerm((), (), is_invalid=True)
    for terms in ((), (invalid,)):
        spec = facts.PodSpec(node_affinity=NodeSelector(terms))
        required = read_pod(expander_requests.pod("p", spec=spec)).spec.affinity.nodeAffinity
        assert required.HasField("requiredDuringSchedulingIgnoredDuringExecution")
        assert len(required.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms) == len(terms)


@pytest.mark.parametrize("source", ["emptyDir", "persistentVolumeClaim", "ephemeral"])
def test_a_volume_has_the_source_that_the_pod_names(source: str) -> None:
    spec = facts.PodSpec(volumes=(facts.Volume("data", source),))
    (volume,) = read_pod(expander_requests.pod("p", spec=spec)).spec.volumes
    assert [field.name for field, _ in volume.volumeSource.ListFields()] == [source]


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_an_answer_or_none(content: bytes) -> None:
    try:
        groups = client.decode_response(content)
    except DecodeError:
        return
    assert all(isinstance(group, str) for group in groups)


@given(st.lists(st.text(max_size=20), max_size=5), st.data())
def test_an_answer_that_is_damaged_anywhere_is_an_answer_or_none(groups: list[str], data: st.DataObject) -> None:
    content = bytearray(answer(groups))
    assert client.decode_response(bytes(content)) == tuple(groups)
    for _ in range(data.draw(st.integers(1, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    with contextlib.suppress(DecodeError):
        client.decode_response(bytes(content[:cut]))
