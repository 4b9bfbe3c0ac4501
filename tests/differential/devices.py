"""Clusters with devices of every kind: counters, shares, pools in several slices, devices that many nodes reach.

The oracle's own generator draws plain pools. This one takes its clusters and gives their nodes and claims more to
disagree about.
"""

import random
from typing import Any

from tests.differential import oracle
from tests.differential.oracle import Json

DRIVER = "gpu.example.com"
_ATTRIBUTES = f'device.attributes["{DRIVER}"]'
_SELECTORS = (
    f'{_ATTRIBUTES}.model == "a100"',
    f"{_ATTRIBUTES}.memory >= 24",
    f'{_ATTRIBUTES}.model in ["l4", "h100"]',
    f'{_ATTRIBUTES}.model.startsWith("h") || {_ATTRIBUTES}.numa == 1',
    f"has({_ATTRIBUTES}.rare) && {_ATTRIBUTES}.rare",
    f'"rare" in {_ATTRIBUTES}',
    f"{_ATTRIBUTES}.rare",
    f"{_ATTRIBUTES}.?rare.orValue(false)",
    f'device.capacity["{DRIVER}"].memory.isGreaterThan(quantity("20Gi"))',
    f'device.capacity["{DRIVER}"].memory.compareTo(quantity("40Gi")) <= 0',
    f"cel.bind(a, {_ATTRIBUTES}, a.numa == 0 && a.memory != 16)",
    f'{_ATTRIBUTES}.version.isGreaterThan(semver("1.2.0"))',
    f'semver("2.0.0").compareTo({_ATTRIBUTES}.version) >= 0',
    "device.allowMultipleAllocations",
    "!device.allowMultipleAllocations",
    'device.attributes["other.example.com"].size() == 0',
    'device.attributes["other.example.com"].zone == "a"',
    f'{_ATTRIBUTES}.exists(name, name == "rare")',
    f"{_ATTRIBUTES}.memory / 16 == 1 ? {_ATTRIBUTES}.numa == 0 : true",
    f"{_ATTRIBUTES}.model < 5",
    f"size({_ATTRIBUTES}.model) > 2 && {_ATTRIBUTES}.memory % 3 == 1",
    f"[16, 24].exists(m, m == {_ATTRIBUTES}.memory)",
    f'{_ATTRIBUTES}.model.matches("^[al].*0?0$")',
    f"{_ATTRIBUTES}.memory + 1.5 > 2.0",
    f"{_ATTRIBUTES}.memory > 20.5",
)


def draw(seed: int, cases: int, release: str) -> list[Json]:
    """Random cases, without verdicts."""
    drawn = oracle.draw("dra", seed, cases, release)
    return [enrich(case, random.Random(f"{seed}/{case['name']}")) for case in drawn]


def enrich(case: Json, rng: random.Random) -> Json:
    """The case with other slices for its nodes, and claims that ask for more than they did."""
    return _Enriched(case, rng).case


class _Enriched:
    def __init__(self, case: Json, rng: random.Random) -> None:
        self.case, self._rng = case, rng
        self._nodes = [item["metadata"]["name"] for item in case["objects"] if item["kind"] == "Node"]
        kept = [entry for entry in case["objects"] if entry["kind"] not in ("ResourceSlice", "Node")]
        nodes = [one for one in case["objects"] if one["kind"] == "Node"]
        self._slices: list[Json] = []
        for name in self._nodes:
            if self._rng.random() < 0.85:
                self._equip(name)
        if self._rng.random() < 0.6:
            self._share()
        for claim in (one for one in kept if one["kind"] == "ResourceClaim"):
            self._ask(claim)
            if claim.get("status", {}).get("allocation"):
                self._split(claim)
        case["objects"] = [*nodes, *self._slices, *kept]

    def _some(self, *choices: Any) -> Any:
        return self._rng.choice(choices)

    # What drivers offer

    def _slice(self, name: str, pool: str, count: int, body: Json, generation: int = 1) -> None:
        pool_of = {"name": pool, "generation": generation, "resourceSliceCount": count}
        spec = {"driver": DRIVER, "pool": pool_of, **body}
        self._slices.append(
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
        )

    def _equip(self, node: str) -> None:
        here: Json = {"nodeName": node}
        style = self._rng.random()
        if style < 0.3:
            self._slice(f"slice-{node}", node, 1, {**here, "devices": self._devices(4)})
        elif style < 0.5:
            self._partition(node, here)
        elif style < 0.7:
            self._slice(f"slice-{node}", node, 1, {**here, "devices": self._devices(3, shared=True)})
        elif style < 0.85:
            first = self._devices(2)
            second = [{**item, "name": f"more-{n}"} for n, item in enumerate(self._devices(2))]
            if self._rng.random() < 0.15:
                second[0]["name"] = first[0]["name"]
            self._slice(f"slice-{node}-b", node, 2, {**here, "devices": first})
            self._slice(f"slice-{node}-a", node, 2, {**here, "devices": second})
        else:
            count = self._some(1, 2)
            self._slice(f"slice-{node}-old", node, 1, {**here, "devices": self._devices(3)})
            self._slice(f"slice-{node}-new", node, count, {**here, "devices": self._devices(2)}, 2)
        if self._rng.random() < 0.3:
            self._slice(f"slice-{node}-z", f"{node}-z", 1, {**here, "devices": self._devices(2)})

    def _partition(self, node: str, here: Json) -> None:
        counters = {"memory": {"value": self._some("40Gi", "80Gi")}, "slots": {"value": self._some("3", "7")}}
        sets = [{"name": f"set-{number}", "counters": counters} for number in range(self._some(1, 2))]
        self._slice(f"slice-{node}-counters", node, 2, {**here, "sharedCounters": sets})
        devices = self._devices(4)
        for item in devices:
            drawn = {"memory": {"value": self._some("10Gi", "20Gi", "40Gi")}, "slots": {"value": self._some("1", "2")}}
            item["consumesCounters"] = [{"counterSet": self._some(*sets)["name"], "counters": drawn}]
            if self._rng.random() < 0.2:
                item["allowMultipleAllocations"] = True
        self._slice(f"slice-{node}-devices", node, 2, {**here, "devices": devices})

    def _devices(self, most: int, shared: bool = False) -> list[Json]:
        return [self._device(f"gpu-{number}", shared) for number in range(self._rng.randint(1, most))]

    def _device(self, name: str, shared: bool) -> Json:
        attributes: Json = {
            "memory": {"int": self._some(16, 24, 40, 80)},
            "model": {"string": self._some("a100", "l4", "h100")},
            "numa": {"int": self._some(0, 1)},
            "version": {"version": self._some("1.0.0", "1.2.0", "2.0.0-rc.1", "2.1.0")},
        }
        if self._rng.random() < 0.4:
            attributes["rare"] = {"bool": self._some(True, False)}
        if self._rng.random() < 0.3:
            attributes["other.example.com/zone"] = {"string": self._some("a", "b")}
        device: Json = {"name": name, "attributes": attributes}
        memory: Json = {"value": self._some("16Gi", "40Gi", "80Gi")}
        device["capacity"] = {"memory": memory}
        if shared and self._rng.random() < 0.8:
            device["allowMultipleAllocations"] = True
            policy = self._rng.random()
            if policy < 0.3:
                memory["requestPolicy"] = {"default": "4Gi", "validRange": {"min": "2Gi", "step": "2Gi"}}
            elif policy < 0.6:
                memory["requestPolicy"] = {"default": "8Gi", "validValues": ["4Gi", "8Gi", "16Gi"]}
        if self._rng.random() < 0.15:
            effect = self._some("NoSchedule", "NoExecute", "None")
            device["taints"] = [{"key": "example.com/bad", "value": "x", "effect": effect,
                                 "timeAdded": "2026-01-01T00:00:00Z"}]  # fmt: skip
        return device

    def _share(self) -> None:
        some = self._rng.sample(self._nodes, max(1, len(self._nodes) // 2))
        if self._rng.random() < 0.5:
            devices = self._devices(4)
            for item in devices:
                if self._rng.random() < 0.5:
                    item["nodeName"] = self._some(*some)
                else:
                    item["allNodes"] = True
            self._slice("slice-fabric", "fabric", 1, {"perDeviceNodeSelection": True, "devices": devices})
            return
        where = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["z1"]}]}
        reach = self._some({"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": [where]}})
        self._slice("slice-fabric", "fabric", 1, {**reach, "devices": self._devices(3)})

    # What claims ask for

    def _split(self, claim: Json) -> None:
        """Some claims that are allocated have a share of their device, or look at it only."""
        for result in claim["status"]["allocation"]["devices"]["results"]:
            chance = self._rng.random()
            if chance < 0.4:
                result["shareID"] = f"{self._rng.getrandbits(32):08x}-0000-4000-8000-000000000000"
                result["consumedCapacity"] = {"memory": self._some("4Gi", "8Gi", "30Gi")}
            elif chance < 0.5:
                result["adminAccess"] = True

    def _ask(self, claim: Json) -> None:
        asked = claim["spec"]["devices"]
        for request in asked.get("requests", ()):
            for item in (request.get("exactly"), *request.get("firstAvailable", ())):
                if item is not None:
                    self._vary(item, is_part="name" in item)
        names = [request["name"] for request in asked.get("requests", ())]
        if self._rng.random() < 0.3:
            attribute = f"{DRIVER}/{self._some('numa', 'model', 'memory', 'rare')}"
            kind = self._some("matchAttribute", "distinctAttribute")
            chosen: Json = {kind: attribute}
            if self._rng.random() < 0.4:
                chosen["requests"] = [self._some(*names)]
            asked.setdefault("constraints", []).append(chosen)

    def _vary(self, one: Json, is_part: bool) -> None:
        if one["deviceClassName"] == "nic":
            one["deviceClassName"] = "gpu"
        if self._rng.random() < 0.5:
            one["selectors"] = [{"cel": {"expression": self._some(*_SELECTORS)}}]
        if self._rng.random() < 0.3:
            one["capacity"] = {"requests": {"memory": self._some("1Gi", "3Gi", "4Gi", "8Gi", "20Gi")}}
        if not is_part and self._rng.random() < 0.1:
            one["adminAccess"] = True
