"""Protobuf: what is written is read, and arbitrary bytes are either a message or none, never anything worse."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.autoscaler.grpc_expander import expander_requests
from windlass.autoscaler.grpc_expander import messages, protobuf
from windlass.autoscaler.grpc_expander.protobuf import ProtoField

INNER = {
    "text": ProtoField(1),
    "number": ProtoField(2),
    "several": ProtoField(3),
    "by_name": ProtoField(4, is_map=True),
}
OUTER = {
    "one": ProtoField(1, INNER),
    "many": ProtoField(15, INNER),
    "by_name": ProtoField(16, INNER, is_map=True),
    "raw": ProtoField(17),
}


def read(content: bytes) -> list[tuple[int, int, int | bytes]]:
    return list(protobuf.read_fields(content))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"one": {"text": "", "number": None, "several": []}}, "0a00", id="a message of nothing"),
        pytest.param({"one": None}, "", id="no message"),
        pytest.param({"one": {"text": "hé"}}, "0a050a0368c3a9", id="text"),
        pytest.param({"one": {"number": 300}}, "0a0310ac02", id="number"),
        pytest.param({"one": {"number": 0}}, "0a021000", id="zero is a value"),
        pytest.param({"one": {"number": -1}}, "0a0b10ffffffffffffffffff01", id="negative"),
        pytest.param({"one": {"number": True}}, "0a021001", id="truth"),
        pytest.param({"one": {"several": ["a", "", "b"]}}, "0a081a01611a001a0162", id="several"),
        pytest.param({"one": {"by_name": {"a": "b"}}}, "0a0822060a0161120162", id="map of texts"),
        pytest.param({"many": [{"number": 1}, {}]}, "7a0210017a00", id="messages"),
        pytest.param({"by_name": {"a": {"number": 1}}}, "8201070a016112021001", id="map of messages"),
        pytest.param({"raw": b"\xff\x00"}, "8a0102ff00", id="bytes"),
    ],
)
def test_values_are_written_as_protobuf_spells_them(value: dict[str, object], written: str) -> None:
    assert protobuf.encode_message(OUTER, value).hex() == written


@given(st.integers(-(2**63), 2**64 - 1))
def test_numbers_come_back(number: int) -> None:
    ((_, kind, found),) = read(protobuf.encode_message(INNER, {"number": number}))
    assert (kind, found) == (protobuf.VARINT, number % 2**64)


@given(st.lists(st.tuples(st.integers(1, 2**29 - 1), st.binary(max_size=300)), max_size=8))
def test_fields_come_back_in_order(fields: list[tuple[int, bytes]]) -> None:
    content = b"".join(protobuf.encode_delimited(number, value) for number, value in fields)
    assert read(content) == [(number, protobuf.BYTES, value) for number, value in fields]


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_an_answer_or_none(content: bytes) -> None:
    try:
        groups = messages.decode_response(content)
    except protobuf.NotProtobuf:
        return
    assert all(isinstance(group, str) for group in groups)


@given(st.lists(st.text(max_size=20), max_size=5), st.data())
def test_an_answer_that_is_damaged_anywhere_is_an_answer_or_none(groups: list[str], data: st.DataObject) -> None:
    content = bytearray(_answer(groups))
    assert messages.decode_response(bytes(content)) == tuple(groups)
    for _ in range(data.draw(st.integers(1, 3))):
        if content:
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    with contextlib.suppress(protobuf.NotProtobuf):
        messages.decode_response(bytes(content[:cut]))


def _answer(groups: list[str]) -> bytes:
    return b"".join(
        protobuf.encode_delimited(
            1, protobuf.encode_message({"group": ProtoField(1), "count": ProtoField(2)}, {"group": group, "count": 1})
        )
        for group in groups
    )


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"\x0a\x00" * (messages.MAX_OPTIONS + 1), id="options"),
        pytest.param(protobuf.encode_delimited(1, b"\x2a\x00" * (messages.MAX_FIELDS + 1)), id="pods of one option"),
    ],
)
def test_an_answer_without_end_is_none(content: bytes) -> None:
    with pytest.raises(protobuf.NotProtobuf, match="found more than"):
        messages.decode_response(content)


def test_pods_that_options_share_are_written_for_each() -> None:
    pods = [expander_requests.pod(f"p{number}") for number in range(3)]
    content = messages.encode_request(expander_requests.ask(["a", "b", "c"], pods))
    options = [value for number, _, value in read(content) if number == 1 and isinstance(value, bytes)]
    of_each = [[value for number, _, value in read(option) if number == 5] for option in options]
    assert len(of_each) == 3
    assert of_each[0] == of_each[1] == of_each[2]
    assert [[f"uid-p{number}" in str(pod) for pod in of_each[0]] for number in range(3)] == [
        [True, False, False],
        [False, True, False],
        [False, False, True],
    ]
