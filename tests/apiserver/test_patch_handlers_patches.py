"""Patches, by the examples of their standards."""

from typing import Any

import pytest

from windlass.apiserver import patch_handlers


@pytest.mark.parametrize(
    ("target", "change", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_merge_patch_merges_as_rfc_7396_has_it(target: Any, change: Any, expected: Any) -> None:
    assert patch_handlers.merge_patch(target, change) == expected


def test_a_merge_patch_leaves_its_target_alone() -> None:
    target = {"a": {"b": 1}}
    patch_handlers.merge_patch(target, {"a": {"b": 2}})
    assert target == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("document", "operations", "expected"),
    [
        ({"foo": "bar"}, [{"op": "add", "path": "/baz", "value": "qux"}], {"foo": "bar", "baz": "qux"}),
        ({"foo": ["a", "c"]}, [{"op": "add", "path": "/foo/1", "value": "b"}], {"foo": ["a", "b", "c"]}),
        ({"foo": ["a", "b"]}, [{"op": "remove", "path": "/foo/1"}], {"foo": ["a"]}),
        ({"a": {"b": 1}, "c": {}}, [{"op": "move", "from": "/a/b", "path": "/c/d"}], {"a": {}, "c": {"d": 1}}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a/b": 1, "m~n": 2}, [{"op": "remove", "path": "/a~1b"}, {"op": "remove", "path": "/m~0n"}], {}),
        ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
    ],
)
def test_a_json_patch_is_carried_out_as_rfc_6902_has_it(document: Any, operations: Any, expected: Any) -> None:
    assert patch_handlers.json_patch(document, operations) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/a/b/c", "value": 1},
        {"op": "add", "path": "/list/9", "value": 1},
        {"op": "remove", "path": "/nothing"},
        {"op": "replace", "path": "/list/9", "value": 1},
        {"op": "move", "from": "/nothing", "path": "/b"},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "add", "path": "/a"},
        {"op": "dance", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
    ],
)
def test_what_cannot_be_carried_out_is_refused_and_changes_nothing(operation: Any) -> None:
    document = {"a": 1, "list": [1]}
    with pytest.raises(patch_handlers.PatchNotApplicable):
        patch_handlers.json_patch(document, [{"op": "add", "path": "/list/-", "value": 2}, operation])
    assert document == {"a": 1, "list": [1]}
