"""Ways to make an object malformed: values that an API server admits and few expect, and values that it refuses."""

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.malformed_input.objects import CAPACITY, OPTIONS, SIZE, Json
from tests.malformed_objects import mutations

_LONG_INTEGER = "@long-integer@"
"""Stands for a number of 4,400 digits, which Python does not write."""
ODD: tuple[Any, ...] = (
    *mutations.ODD,
    "\x00", "é\n\u202e", [], {}, [[]], [None], {"a": None}, [{}], {"": ""}, {"a": {"b": [1]}}, "\ud800", "1e10000",
    "-1e10000", "1e5000", "9" * 4400, "1e99999999999999999999", "0.0000000000000000001", "-5", "99999999999999999999",
    "9223372036854775808", "2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "(a+)+$", 2**70,
    _LONG_INTEGER, -1, "v3", "1" * 64, "Gt", "Lt", "Exists", "a" * 300, ["a"] * 2000,
)  # fmt: skip
DEEP = (300, 900, 1500, 2000, 5000)
"""Levels of nesting."""
_HOLE = "@nested:%d@"


def nested(levels: int) -> str:
    """Stands for so many levels of maps until the object is encoded; one of `DEEP`."""
    assert levels in DEEP
    return _HOLE % levels


CEL = (
    'device.attributes["gpu.example.com"].model.matches("^(a+)+$b")',
    'quantity("1e10000").asApproximateFloat() > 1.0',
    '[1,2][dyn(double("inf"))] == 1',
    "[1,2][dyn(1.0/0.0)] == 1",
    "{dyn([1]): 1}.size() == 1",
    'semver("1.2.3-' + "9" * 5000 + '") == semver("1.2.3")',
    'device.driver.matches("a{1,99999999999999}")',
    "device.attributes[dyn([1])] == 1",
    '"\\U00110000" == "a"',
    "9" * 5000 + " > 1",
    "(" * 2000 + "true" + ")" * 2000,
    "!" * 3000 + "true",
    "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10]"
    ".all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a+b+c+d+e > 0)))))",
    "device.driver + 1",
    "device.nothing.at.all",
    "true || 1/0 == 1",
    '"a".format([1])',
    "",
)  # fmt: skip


def find_paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place within a value."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        yield from find_paths(item, (*path, key))


def put(obj: Json, path: tuple[Any, ...], value: Any) -> None:
    """Set what is at a path, in place."""
    within: Any = obj
    for step in path[:-1]:
        within = within[step]
    within[path[-1]] = value


def _choose_path(obj: Json, chance: random.Random) -> tuple[Any, ...]:
    """A place whose change leaves an object that can be addressed, mostly."""
    kept = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}
    kept |= {("metadata", "uid"), ("metadata", "resourceVersion")}
    paths = [path for path in find_paths(obj) if path not in kept or chance.random() < 0.02]
    return chance.choice(paths)


# Ways


def _one_value(obj: Json, chance: random.Random) -> None:
    put(obj, _choose_path(obj, chance), copy.deepcopy(chance.choice(ODD)))


def _several_values(obj: Json, chance: random.Random) -> None:
    for _ in range(chance.randrange(2, 5)):
        _one_value(obj, chance)


def _bend(obj: Json, chance: random.Random) -> None:
    keys = [key for key in obj if key not in ("apiVersion", "kind", "metadata")] or ["metadata"]
    key = chance.choice(keys)
    obj[key] = mutations.bend(obj[key], chance, chance.randrange(1, 4))


def _leave_out(obj: Json, chance: random.Random) -> None:
    path = _choose_path(obj, chance)
    within: Any = obj
    for step in path[:-1]:
        within = within[step]
    del within[path[-1]]


def _nest(obj: Json, chance: random.Random) -> None:
    put(obj, _choose_path(obj, chance), nested(chance.choice(DEEP)))


def _annotate(obj: Json, chance: random.Random) -> None:
    keys = [
        f"{SIZE}min-size", f"{SIZE}max-size", *(f"{CAPACITY}{name}" for name in (
            "cpu", "memory", "gpu-count", "gpu-type", "maxPods", "labels", "taints", "csi-driver", "dra-driver",
            "ephemeral-disk")),
        *(f"{OPTIONS}{name}" for name in (
            "scaledownutilizationthreshold", "scaledownunneededtime", "maxnodeprovisiontime")),
        "cluster-autoscaler.kubernetes.io/safe-to-evict", "cluster-autoscaler.kubernetes.io/scale-down-disabled",
        "cluster-autoscaler.kubernetes.io/pod-scale-up-delay", "cluster.x-k8s.io/delete-machine",
        "cluster.x-k8s.io/machine", "x",
    ]  # fmt: skip
    texts = [value for value in ODD if isinstance(value, str)]
    annotations = obj["metadata"].setdefault("annotations", {})
    for key in chance.sample(keys, 3):
        annotations[key] = chance.choice((*texts, "x" * 200_000) if chance.random() < 0.02 else texts)


def _enlarge(obj: Json, chance: random.Random) -> None:
    """A list of thousands, or as many labels."""
    lists = [path for path in find_paths(obj) if path and isinstance(_at(obj, path), list) and _at(obj, path)]
    if lists and chance.random() < 0.7:
        path = chance.choice(lists)
        put(obj, path, _at(obj, path) * chance.choice((200, 1000)))
    else:
        obj["metadata"]["labels"] = {f"l{i}": "v" for i in range(2000)}


def _at(obj: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        obj = obj[step]
    return obj


# What an API server admits, by kind


def _odd_quantity(obj: Json, chance: random.Random) -> None:
    paths = [
        path
        for path in find_paths(obj)
        if path[-1] in ("cpu", "memory", "storage", "pods", "m", "nodes", "nvidia.com/gpu", "value")
        and isinstance(_at(obj, path), str)
    ]
    if paths:
        amounts = ("1e5000", "100e4998", "1e-5000", "0.0000000001", "9" * 300, "-1", "1Ei", "9999Ei", "1m", "0")
        put(obj, chance.choice(paths), chance.choice(amounts))


def _odd_operator(obj: Json, chance: random.Random) -> None:
    spec = obj.get("spec", {})
    spec = spec.get("template", {}).get("spec", spec) if obj["kind"] != "Pod" else spec
    if "tolerations" in spec:
        operator = chance.choice(("Gt", "Lt", "Is", ""))
        spec["tolerations"] = [{"key": "a", "operator": operator, "value": chance.choice(("1", "v3", "9" * 63))}]
    if "affinity" in spec or chance.random() < 0.5:
        term = {"key": "a", "operator": chance.choice(("Gt", "Lt")), "values": [chance.choice(("v3", "", "9" * 63))]}
        required = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
        affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
        spec["affinity"] = {"nodeAffinity": affinity}


def _odd_expression(obj: Json, chance: random.Random) -> None:
    for path in list(find_paths(obj)):
        if path[-1] == "expression":
            put(obj, path, chance.choice(CEL))


def _deep_parameters(obj: Json, chance: random.Random) -> None:
    for path in list(find_paths(obj)):
        if path[-1] == "parameters":
            put(obj, path, nested(2000))


def _priorities(obj: Json, chance: random.Random) -> None:
    texts = (
        "10:\n- (a+)+$\n",
        "x",
        "[" * 500,
        "10: 5",
        "-1:\n- [",
        "9" * 5000 + ":\n- a\n",
        "a: &a [*a]",
        "10:\n- '('\n",
    )
    obj["metadata"]["name"] = "cluster-autoscaler-priority-expander"
    obj["data"] = {"priorities": chance.choice(texts)}


ANY: tuple[Callable[[Json, random.Random], None], ...] = (
    *(_one_value,) * 8, *(_several_values,) * 3, *(_bend,) * 3, *(_leave_out,) * 2, _nest, *(_annotate,) * 2,
)  # fmt: skip
ADMITTED: dict[str, tuple[Callable[[Json, random.Random], None], ...]] = {
    "Pod": (_odd_quantity, _odd_operator),
    "DaemonSet": (_odd_quantity, _odd_operator),
    "ResourceClaim": (_odd_expression, _deep_parameters, _odd_quantity),
    "DeviceClass": (_odd_expression, _deep_parameters),
    "ResourceSlice": (_odd_quantity,),
    "ConfigMap": (_priorities,),
    "CapacityBuffer": (_odd_quantity,),
    "Node": (_odd_quantity,),
}


def edit_lease(lease: Json, chance: random.Random) -> None:
    """The leader's own Lease, in place, as anyone may who has the right: but with no other holder, who would lead."""
    fields: dict[str, tuple[Any, ...]] = {
        "holderIdentity": ("", None, 5, [], {"a": "b"}),
        "leaseDurationSeconds": (0, 1, -5, 2**31 - 1, 10**40, "soon", [], True, None, 1.5),
        "leaseTransitions": (-1, 2**31 - 1, "many", {}, "9" * 5000),
        "renewTime": ("never", 7, None, "0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"),
        "acquireTime": ("x", [], None),
    }
    if chance.random() < 0.2 or not isinstance(lease.get("spec"), dict):
        lease["spec"] = chance.choice(({}, [], "x", None))
        return
    for name in chance.sample(list(fields), chance.randrange(1, 4)):
        lease["spec"][name] = chance.choice(fields[name])


def edit_memory(config_map: Json, chance: random.Random) -> None:
    """The ConfigMap of the autoscaler's own memory, in place."""
    edits: tuple[Json, ...] = (
        {"data": None, "binaryData": None},
        {"data": ["x"]},
        {"binaryData": "x"},
        {"binaryData": {"memory": "####"}},
        {"binaryData": {"memory": "AAAA" * 200_000}},
        {"binaryData": {"memory": 5}},
        {"data": {"generation": "9" * 5000, "parts": "-1", "digest": "", "holder": ""}},
        {"data": {"generation": [], "parts": {}, "holder": 5}},
        {"data": {"memory": "[" * 5000}, "binaryData": None},
        {"metadata": {**config_map["metadata"], "annotations": {"a": "x" * 200_000}}},
    )
    config_map.update(chance.choice(edits))


def malform(obj: Json, chance: random.Random) -> bytes:
    """The object made malformed, in place, as JSON text; now and then as text that is not JSON any more."""
    fit = ADMITTED.get(obj["kind"], ())
    roll = chance.random()
    if fit and roll < 0.3:
        chance.choice(fit)(obj, chance)
    elif roll < 0.31:
        _enlarge(obj, chance)
    else:
        chance.choice(ANY)(obj, chance)
    raw = encode(obj)
    if chance.random() < 0.002:
        raw = mutations.bend_bytes(raw, chance).replace(b"\n", b" ").replace(b"\r", b" ")
    return raw


def encode(obj: Json) -> bytes:
    """JSON text: lone surrogates escaped, and nesting that no encoder would follow written out."""
    text = json.dumps(obj, ensure_ascii=True, separators=(",", ":"))
    text = text.replace(json.dumps(_LONG_INTEGER), "9" * 4400)
    for levels in DEEP:
        hole = json.dumps(_HOLE % levels)
        if hole in text:
            text = text.replace(hole, '{"":' * levels + "1" + "}" * levels)
    return text.encode()
