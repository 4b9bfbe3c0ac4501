"""The call's two messages: a question as BestOptionsRequest, and the groups that a BestOptionsResponse names."""

from windlass.autoscaler.expander_server import objects, wire
from windlass.engine.expanders.option import Option
from windlass.engine.expanders.outside import Question

METHOD = "/grpcplugin.Expander/BestOptions"

_OPTIONS, _NODES = 1, 3
_GROUP, _COUNT, _DEBUG, _POD = 1, 2, 3, 5
_TEXTS = frozenset({_GROUP, _DEBUG})

MOST_OPTIONS = 10_000
"""In an answer. No cluster has as many groups."""
MOST_FIELDS = 1_000_000
"""In an answer, which may repeat all pods that were sent. Reading them takes about a second."""


def write_question(question: Question) -> bytes:
    """BestOptionsRequest."""
    writer = objects.Writer()
    written = bytearray()
    for option, pods in zip(question.options, question.pods, strict=True):
        written += wire.delimit(
            _OPTIONS, _write_option(option) + b"".join(wire.delimit(_POD, writer.pod(pod)) for pod in pods)
        )
    for group, node in question.templates.items():
        entry = wire.delimit(1, group.encode()) + wire.delimit(2, writer.node(node))
        written += wire.delimit(_NODES, entry)
    return bytes(written)


def _write_option(option: Option) -> bytes:
    count = wire.varint(_COUNT << 3 | wire.VARINT) + wire.varint(option.node_count)
    return wire.delimit(_GROUP, option.group.encode()) + count + wire.delimit(_DEBUG, option.debug.encode())


def read_answer(content: bytes) -> tuple[str, ...]:
    """Ids of the groups that BestOptionsResponse names, in its order. NotProtobuf for what is no such message."""
    groups: list[str] = []
    fields = 0
    for number, kind, value in wire.read_fields(content):
        fields += 1
        if number == _OPTIONS and kind == wire.BYTES and isinstance(value, bytes):
            group, more = _read_option(value, MOST_FIELDS - fields)
            fields += more
            groups.append(group)
        if len(groups) > MOST_OPTIONS or fields > MOST_FIELDS:
            raise wire.NotProtobuf(f"found more than {MOST_OPTIONS} options or {MOST_FIELDS} fields")
    return tuple(groups)


def _read_option(content: bytes, most: int) -> tuple[str, int]:
    """Its group, and how many fields were read, not many more than `most`."""
    group, fields = "", 0
    for number, kind, value in wire.read_fields(content):
        fields += 1
        if number in _TEXTS and kind == wire.BYTES and isinstance(value, bytes):
            text = _read_text(value)
            group = text if number == _GROUP else group
        if fields > most:
            break
    return group, fields


def _read_text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise wire.NotProtobuf(f"found a text that is not UTF-8: {error.reason}") from None
