"""YAML as Kubernetes reads it (go.yaml.in/yaml/v2 by way of sigs.k8s.io/yaml)."""

from typing import Any

import msgspec
import pytest

from windlass.errors import InvalidInput
from windlass.kube import fields, yaml_documents


def read(text: str) -> Any:
    (document,) = yaml_documents.read_documents(text, "file.yaml")
    return document


@pytest.mark.parametrize(
    ("spelt", "meant"),
    [
        ("yes", True), ("Y", True), ("y", True), ("On", True), ("true", True), ("n", False), ("off", False),
        ("NO", False), ("yEs", "yEs"), ("tRue", "tRue"), ('"yes"', "yes"),
        ("null", None), ("~", None), ("", None), ("nil", "nil"),
        ("12", 12), ("-3", -3), ("+3", 3), ("1_000", 1000), ("0x1F", 31), ("0o17", 15), ("017", 15), ("0b101", 5),
        ("0", 0), ("089", 89.0), ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("1_000.5", 1000.5),
        ("1.5.3", "1.5.3"), ("1Gi", "1Gi"), ("12:30", "12:30"), ("190:20:30", "190:20:30"), ("=", "="),
        ("2024-01-02", "2024-01-02"), ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"), ("!!str 5", "5"),
    ],
)  # fmt: skip
def test_unquoted_text_stands_for_what_kubernetes_takes_it_for(spelt: str, meant: object) -> None:
    value = read(f"key: {spelt}\n")["key"]

    assert (value, type(value)) == (meant, type(meant))


def test_documents_come_in_order_and_empty_ones_do_not_count() -> None:
    assert list(yaml_documents.read_documents("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n...\n", "f")) == [
        {"a": 1},
        {"b": 2},
    ]


def test_anchors_and_merges_are_followed() -> None:
    assert read("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\n")["b"] == {"p": 1, "q": 3}


def test_documents_before_a_mistake_are_read() -> None:
    documents = yaml_documents.read_documents("a: 1\n---\nb: [\n", "file.yaml")

    assert next(documents) == {"a": 1}
    with pytest.raises(InvalidInput, match=r"file\.yaml: line 4, column 1: not YAML: "):
        next(documents)


def test_a_key_may_be_there_twice_unless_reading_is_strict() -> None:
    text = "a: {b: 1, c: 2, b: 3}\n"

    assert read(text) == {"a": {"b": 3, "c": 2}}
    with pytest.raises(InvalidInput, match=r"line 1, column 17: key 'b' is there twice"):
        list(yaml_documents.read_documents(text, "file.yaml", strict=True))
    (merged,) = yaml_documents.read_documents("a: &x {b: 1}\nc: {<<: *x, b: 2}\n", "f", strict=True)
    assert merged["c"] == {"b": 2}


class Inner(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    max_skew: int | None = None


class Outer(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    inner: list[Inner] | None = None
    one: Inner | None = None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b'{"two": 1}', "the document: found 'two', expected only the fields inner, one"),
        (b'{"one": {"skew": 1}}', "one: found 'skew', expected only the fields maxSkew"),
        (b'{"inner": [{}, {"skew": 1}]}', r"inner\[1\]: found 'skew', expected only the fields maxSkew"),
        (b'{"inner": [{"maxSkew": "x"}]}', r"inner\[0\].maxSkew: found 'x', expected int"),
    ],
)
def test_an_unknown_field_is_named_with_those_that_are_known(text: bytes, complaint: str) -> None:
    with pytest.raises(fields.InvalidField, match=complaint):
        yaml_documents.decode_strict(text, Outer)


def test_the_path_begins_where_the_part_is() -> None:
    with pytest.raises(fields.InvalidField, match=r"profiles\[0\]\.args\.one: found 'skew'"):
        yaml_documents.decode_strict(b'{"one": {"skew": 1}}', Outer, "profiles[0].args")


def test_depth_is_refused_at_its_place_before_anything_is_composed() -> None:
    with pytest.raises(InvalidInput, match=r"^deep\.yaml: line 2, column 203: it is nested more than 200 deep$"):
        list(yaml_documents.read_documents("a: 1\nb: " + "[" * 100_000, "deep.yaml"))


def test_two_hundred_levels_are_read() -> None:
    (document,) = yaml_documents.read_documents("[" * 200 + "]" * 200, "deep.yaml")
    levels = 0
    while document:
        (document,) = document
        levels += 1
    assert levels == 199


def test_each_document_has_its_own_levels() -> None:
    text = "---\n".join(["[" * 150 + "]" * 150 + "\n"] * 3)
    assert len(list(yaml_documents.read_documents(text, "deep.yaml"))) == 3
