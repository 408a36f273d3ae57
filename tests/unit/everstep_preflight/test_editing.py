"""Edits of a text: exactly what was meant, or none at all."""

import string
from typing import Any

import pytest
import yaml
from everstep_preflight.changing import changed
from everstep_preflight.editing import edited
from everstep_preflight.model import (
    Append,
    Change,
    Remove,
    RemoveDocument,
    ReplaceWords,
    SetValue,
    Target,
)
from everstep_preflight.reading import read
from hypothesis import given
from hypothesis import strategies as st

BLOCK = """\
# the job
spec:  # its spec
  floor: 6  # the floor

  tasks:
  - name: a
    words: |
      first
      second  # not a comment
  # about b
  - {name: b, size: 8}
  empty:
"""


def at(*path: str | int) -> Target:
    return Target("a.yaml", 0, path)


def edit(text: str, change: Change) -> str | None:
    after = edited(read("a.yaml", text), (change,))
    return after.text if after else None


@pytest.mark.parametrize(
    ("change", "old", "new"),
    [
        (SetValue(at("spec", "floor"), 7), "floor: 6  #", "floor: 7  #"),
        (SetValue(at("spec", "size"), 8, "floor"), "the floor\n", "the floor\n  size: 8\n"),
        (SetValue(at("spec", "size"), 8), "empty:\n", "empty:\n  size: 8\n"),
        (SetValue(at("spec", "a", "b"), [1]), "empty:\n", "empty:\n  a:\n    b:\n    - 1\n"),
        (SetValue(at("spec", "empty", "b"), []), "empty:\n", "empty: {b: []}\n"),
        (SetValue(at("spec", "tasks", 1, "floor"), 6), "size: 8}", "size: 8, floor: 6}"),
        (Append(at("spec", "empty"), "x"), "empty:\n", "empty: [x]\n"),
        (Append(at("spec", "tasks"), {"c": 1}), "size: 8}\n", "size: 8}\n  - c: 1\n"),
        (Append(at("spec", "more"), {"c": 1}), "empty:\n", "empty:\n  more:\n  - c: 1\n"),
        (Remove(at("spec", "floor")), "  floor: 6  # the floor\n", ""),
        (Remove(at("spec", "empty")), "  empty:\n", ""),
        (Remove(at("spec", "tasks", 1)), "  - {name: b, size: 8}\n", ""),
        (Remove(at("spec", "tasks", 1, "name")), "name: b, ", ""),
        (Remove(at("spec", "tasks", 0, "name")), "name: a\n    ", ""),
        (ReplaceWords(at("spec", "tasks", 0, "words"), "first", "1st"), "first", "1st"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_an_edit_changes_its_own_lines_only(
    change: Change, old: str, new: str, newline: str
) -> None:
    text = BLOCK.replace("\n", newline)
    expected = BLOCK.replace(old, new, 1).replace("\n", newline)
    assert edit(text, change) == expected


def test_the_only_item_of_a_list_takes_the_list_with_it() -> None:
    assert edit("a: 1\nlist:\n- x: 1\n  y: 2\n", Remove(at("list", 0))) == "a: 1\n"


def test_a_text_without_a_last_newline_gets_one() -> None:
    assert edit("a:\n  b: 1", SetValue(at("a", "c"), 2)) == "a:\n  b: 1\n  c: 2\n"


def test_a_field_that_others_share_by_an_anchor_is_left_to_a_person() -> None:
    text = "a: &shared {x: 1}\nb: *shared\n"
    assert edit(text, SetValue(at("a", "x"), 2)) is None
    assert edit(text, SetValue(at("b", "x"), 2)) is None
    assert edit(text, Remove(at("a"))) is None


def test_a_field_that_was_merged_in_is_left_to_a_person() -> None:
    text = "base: &base\n  x: 1\nown:\n  <<: *base\n  y: 2\n"
    assert edit(text, Remove(at("own", "x"))) is None
    assert edit(text, SetValue(at("own", "y"), 3)) == text.replace("y: 2", "y: 3")


def test_words_that_stand_there_twice_are_left_to_a_person() -> None:
    assert edit("a: x and x\n", ReplaceWords(at("a"), "x", "y")) is None


@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize(
    "text", ["a: 1\n---\nb: 2\n---\nc: 3\n", "---\na: 1\n---\nb: 2\n---\nc: 3\n"]
)
def test_a_document_goes_and_the_others_stay(text: str, index: int) -> None:
    after = edited(read("a.yaml", text), (RemoveDocument(Target("a.yaml", index, ())),))
    assert after
    rest = [{"a": 1}, {"b": 2}, {"c": 3}]
    del rest[index]
    assert list(after.data) == rest


KEYS = st.text(string.ascii_lowercase, min_size=1, max_size=2)
SCALARS = st.one_of(st.integers(-9, 99), st.booleans(), st.text(" ab:#-'\"{}[]\n", max_size=6))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


def places(value: Any, above: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    below: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        below = list(value.items())
    elif isinstance(value, list):
        below = list(enumerate(value))
    return [path for key, child in below for path in ((*above, key), *places(child, (*above, key)))]


@given(
    st.dictionaries(KEYS, VALUES, min_size=1, max_size=4),
    VALUES,
    st.sampled_from([True, False, None]),
    st.data(),
)
def test_an_edit_says_what_the_change_says_or_is_not_made(
    document: dict[str, Any], value: Any, flow: bool | None, data: st.DataObject
) -> None:
    text = yaml.safe_dump(document, default_flow_style=flow)
    path = data.draw(st.sampled_from(places(document)))
    changes: list[Change] = [SetValue(at(*path), value), Remove(at(*path))]
    change = data.draw(st.sampled_from([*changes, Append(at(*path), value)]))
    after = edit(text, change)
    if after is not None:
        assert (yaml.safe_load(after) or None) == (changed(document, change) or None)


@given(st.dictionaries(KEYS, VALUES, min_size=2, max_size=4), VALUES, st.data())
def test_a_field_of_a_block_can_always_be_set(
    document: dict[str, Any], value: Any, data: st.DataObject
) -> None:
    text = yaml.safe_dump(document, default_flow_style=False)
    key = data.draw(st.sampled_from(sorted(document)))
    assert edit(text, SetValue(at(key), value)) is not None
