"""Clusters with selectors that kube-scheduler cannot parse, as objects of older API servers hold them.

The oracle's own generator draws what an API server admits today. This one takes its clusters as they are stored, and
gives some of their selectors keys that are no label keys, values that are no label values, or the wrong number of them.
"""

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.differential import devices, oracle
from tests.differential.oracle import Json

BASES = ("nodeaffinity", "interpod", "spread", "volumes", "namespaces", "mixed")
"""The topics of the oracle's generator whose clusters are used, as many of each."""

_CHANGED = 0.12
"""The share of requirements that are changed."""
_VALUES = ("not valid", "-a", "a-", "a" * 64, "ü", "a/b", 'quo"te', "a\nb", "1.5", "9223372036854775808", "")
_KEYS = ("not valid", "", "a/b/c", "Upper.Case/x", "/x", "x/", "-a", "k" * 64)
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def evaluate(binary: Path, seed: int, cases: int, release: str) -> list[Json]:
    """Random cases with verdicts: the oracle fills in the defaults of clusters, then judges them with changes."""
    share = max(1, cases // (len(BASES) + 1))
    drawn = [case for topic in BASES for case in oracle.draw(topic, seed, share, release)]
    drawn += [_select_nodes(case) for case in devices.draw(seed, share, release)]
    changed = [_change(case, random.Random(f"{seed}/{case['name']}")) for case in oracle.evaluate(binary, drawn)]
    return oracle.evaluate(binary, changed, stored=True)


def _select_nodes(case: Json) -> Json:
    """The case with a node selector for what is used from all nodes.

    One slice alone: of several that are wrong kube-scheduler names any, and a device it prints as a whole.
    """
    zone = {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "Exists"}]}
    shared = [item["spec"] for item in case["objects"] if item["kind"] == "ResourceSlice"]
    claims = [item.get("status") or {} for item in case["objects"] if item["kind"] == "ResourceClaim"]
    for spec in [spec for spec in shared if spec.pop("allNodes", None)][:1]:
        spec["nodeSelector"] = {"nodeSelectorTerms": [zone]}
    for allocation in (status["allocation"] for status in claims if status.get("allocation")):
        allocation.setdefault("nodeSelector", {"nodeSelectorTerms": [copy.deepcopy(zone)]})
    return case


def _change(case: Json, rng: random.Random) -> Json:
    for claim in case["objects"]:
        if claim["kind"] == "PersistentVolumeClaim" and rng.random() < _CHANGED:
            claim["spec"]["selector"] = {"matchLabels": {"app": "web"}}
    for selector in _selectors([case["objects"], case["pending"]]):
        for expression in (*(selector.get("matchExpressions") or ()), *(selector.get("matchLabelExpressions") or ())):
            if rng.random() < _CHANGED:
                _change_requirement(expression, rng)
        labels = selector.get("matchLabels")
        if labels and rng.random() < _CHANGED:  # one of them: kube-scheduler names any one of several that are wrong
            labels[rng.choice(sorted(labels))] = rng.choice(_VALUES)
    return case


def _change_requirement(expression: Json, rng: random.Random) -> None:
    """A key, a value, or the number of values that may not parse."""
    values = expression.setdefault("values", [])
    match rng.randrange(6):
        case 0:
            expression["key"] = rng.choice(_KEYS)
        case 1:
            values.append(rng.choice(_VALUES))
        case 2 if values:
            values[0] = rng.choice(_VALUES)
        case 3 if values:
            values.append(values[0])
        case 4 if "operator" in expression:
            expression["operator"] = rng.choice(_OPERATORS)
        case 5:
            values.clear()
    if not values:
        del expression["values"]


def _selectors(tree: Any) -> Iterator[Json]:
    """Every selector and term of a selector in a tree of JSON, but those of the fields of nodes."""
    if isinstance(tree, dict):
        if tree.keys() & {"matchExpressions", "matchLabels", "matchLabelExpressions"}:
            yield tree
        for child in tree.values():
            yield from _selectors(child)
    elif isinstance(tree, list):
        for child in tree:
            yield from _selectors(child)
