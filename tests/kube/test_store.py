from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from windlass.kube import store
from windlass.kube.models import core, meta

ConfigMap = core.ConfigMap


def config_map(name: str, version: int, *, uid: str = "u", app: str = "") -> ConfigMap:
    labels = {"app": app} if app else None
    metadata = meta.ObjectMeta(name=name, namespace="ns", uid=uid, resource_version=str(version), labels=labels)
    return ConfigMap(metadata=metadata)


def by_app(found: ConfigMap) -> Iterable[str]:
    app = (found.meta.labels or {}).get("app")
    return [app] if app else []


def put(held: store.Store[ConfigMap], found: ConfigMap) -> None:
    held.put(found.meta, found)


def test_objects_are_found_by_key_and_by_index() -> None:
    held: store.Store[ConfigMap] = store.Store({"app": by_app})
    one, two = config_map("a", 1, app="x"), config_map("b", 2, app="x")
    put(held, one)
    put(held, two)

    assert held.get("ns/a") == one
    assert held.get("ns/z") is None
    assert held.find("app", "x") == [one, two]
    assert "ns/b" in held
    assert len(held) == 2


def test_an_index_follows_changes_and_forgets_what_is_gone() -> None:
    held: store.Store[ConfigMap] = store.Store({"app": by_app})
    put(held, config_map("a", 1, app="x"))
    put(held, config_map("a", 2, app="y"))

    assert held.find("app", "x") == []
    assert [found.meta.resource_version for found in held.find("app", "y")] == ["2"]
    held.remove(config_map("a", 3).meta)
    assert held.find("app", "y") == []
    assert held._indexes == {"app": {}}


def test_a_complete_list_removes_what_it_does_not_name() -> None:
    held: store.Store[ConfigMap] = store.Store()
    for name in "abc":
        put(held, config_map(name, 1))
    held.begin()
    put(held, config_map("b", 1))
    assert len(held) == 3
    held.end()

    assert held.keys() == ["ns/b"]


def test_a_list_that_begins_anew_forgets_what_it_named_before() -> None:
    held: store.Store[ConfigMap] = store.Store()
    put(held, config_map("a", 1))
    held.begin()
    put(held, config_map("a", 1))
    held.begin()
    held.end()

    assert held.keys() == []


changes = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y", "", None])), max_size=30)


@given(changes)
def test_indexes_always_agree_with_the_objects(steps: list[tuple[str, str | None]]) -> None:
    held: store.Store[ConfigMap] = store.Store({"app": by_app})
    for version, (name, app) in enumerate(steps):
        if app is None:
            held.remove(config_map(name, version).meta)
        else:
            put(held, config_map(name, version, app=app))
        for value in ("x", "y"):
            expected = {found.meta.key for found in held if by_app(found) == [value]}
            assert {found.meta.key for found in held.find("app", value)} == expected
