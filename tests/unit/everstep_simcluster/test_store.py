"""The store numbers every change and remembers a bounded past."""

import pytest
from everstep_simcluster.resources import NODES, PODS, Object
from everstep_simcluster.store import Change, HistoryExpiredError, Ref, Store
from hypothesis import given
from hypothesis import strategies as st


def body(name: str, namespace: str = "training", **more: object) -> Object:
    return {"metadata": {"name": name, "namespace": namespace}, **more}


def apply(store: Store, writes: list[tuple[str, str]]) -> None:
    """Create, change or remove pods, whichever is possible."""
    for number, (what, name) in enumerate(writes):
        ref = Ref("training", name)
        known = store.get(PODS, ref)
        if known is None:
            store.insert(PODS, body(name))
        elif what == "remove":
            store.remove(PODS, ref)
        else:
            store.replace(PODS, {**known, "spec": {"number": number}})


def test_objects_are_listed_by_namespace_and_name() -> None:
    store = Store()
    for name, namespace in (("b", "x"), ("a", "y"), ("a", "x")):
        store.insert(PODS, body(name, namespace))
    assert [(p["metadata"]["namespace"], p["metadata"]["name"]) for p in store.every(PODS)] == [
        ("x", "a"), ("x", "b"), ("y", "a"),
    ]  # fmt: skip
    assert [pod["metadata"]["name"] for pod in store.every(PODS, "x")] == ["a", "b"]


def test_a_listener_hears_every_change_until_it_stops() -> None:
    store, heard = Store(), list[Change]()
    stop = store.listen(heard.append)
    store.insert(PODS, body("a"))
    store.remove(PODS, Ref("training", "a"))
    stop()
    store.insert(PODS, body("b"))
    assert [(change.type, change.revision) for change in heard] == [("ADDED", 2), ("DELETED", 3)]


def test_changes_older_than_the_history_cannot_be_told() -> None:
    store = Store(history_limit=2)
    for name in "abc":
        store.insert(PODS, body(name))
    assert [change.ref.name for change in store.changes_since(store.oldest_revision)] == ["b", "c"]
    with pytest.raises(HistoryExpiredError):
        store.changes_since(store.oldest_revision - 1)


def test_forgetting_the_history_moves_the_revision_on() -> None:
    store = Store()
    store.insert(PODS, body("a"))
    store.forget_history(jump=10)
    assert (store.revision, store.oldest_revision) == (12, 12)
    assert store.get(PODS, Ref("training", "a")) is not None


writes = st.lists(
    st.tuples(st.sampled_from(["change", "remove"]), st.sampled_from("abc")), max_size=12
)


@given(writes, writes)
def test_a_list_at_an_old_revision_is_what_was_listed_then(
    before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> None:
    store = Store()
    apply(store, before)
    listed, revision = store.every(PODS), store.revision
    store.insert(NODES, {"metadata": {"name": "node-0"}})
    apply(store, after)
    assert store.list_at(PODS, "", revision) == listed
