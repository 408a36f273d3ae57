"""What counts as a break within v1."""

from typing import Any, Literal

import pytest
from everstep_contract.base import Model
from everstep_contract.compatibility import breaking_changes
from pydantic import Field, create_model


class Inner(Model):
    """A nested value."""

    name: str


class Narrow(Model):
    """A nested value that admits less."""

    name: Literal["one"]


def change(old: Any, new: Any) -> tuple[str, ...]:
    """Breaking changes when the type of one field of a model changes."""
    before, after = create_model("M", field=(old, ...)), create_model("M", field=(new, ...))
    return breaking_changes(before.model_json_schema(), after.model_json_schema())


def test_an_optional_field_may_be_added() -> None:
    before, after = create_model("M", a=(int, ...)), create_model("M", a=(int, ...), b=(int, 0))
    assert not breaking_changes(before.model_json_schema(), after.model_json_schema())


def test_a_field_may_not_be_removed() -> None:
    before, after = create_model("M", a=(int, ...), b=(int, 0)), create_model("M", a=(int, ...))
    found = breaking_changes(before.model_json_schema(), after.model_json_schema())
    assert found == ("$.b: removed",)


def test_a_field_may_not_become_required() -> None:
    before, after = create_model("M", a=(int, 0)), create_model("M", a=(int, ...))
    found = breaking_changes(before.model_json_schema(), after.model_json_schema())
    assert found == ("$.a: required",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (int, float),
        (int, int | None),
        (Literal["a"], Literal["a", "b"]),
        (Literal["a", "b"], str),
        (Inner, Inner | None),
        (tuple[Narrow, ...], tuple[Inner, ...]),
    ],
)
def test_a_type_may_be_widened(old: Any, new: Any) -> None:
    assert change(old, new) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (float, int),
        (int | None, int),
        (Literal["a", "b"], Literal["a"]),
        (str, Literal["a", "b"]),
        (str, int),
        (Inner | None, Inner),
        (Inner, Narrow),
        (tuple[Inner, ...], tuple[Narrow, ...]),
        (dict[str, int], dict[str, str]),
    ],
)
def test_a_type_may_not_be_narrowed(old: Any, new: Any) -> None:
    assert change(old, new)


@pytest.mark.parametrize("bound", [{"ge": 1}, {"le": 7}, {"gt": 0}])
def test_a_bound_may_not_be_tightened(bound: dict[str, int]) -> None:
    before = create_model("M", field=(int, ...))
    after = create_model("M", field=(int, Field(**bound)))  # type: ignore[call-overload]
    assert breaking_changes(before.model_json_schema(), after.model_json_schema())
