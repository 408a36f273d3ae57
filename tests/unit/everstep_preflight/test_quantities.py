"""Kubernetes quantities."""

from fractions import Fraction

import pytest
from everstep_preflight.quantities import quantity, show_quantity


@pytest.mark.parametrize(
    ("written", "amount"),
    [("8", 8), ("500m", Fraction(1, 2)), ("1.5", Fraction(3, 2)), ("2Gi", 2 << 30), ("3k", 3000)],
)
def test_a_quantity_is_exact(written: str, amount: Fraction) -> None:
    assert quantity(written) == amount


@pytest.mark.parametrize("written", [None, "", "eight", "1e3", "-1", "1 Gi", "1gi"])
def test_what_is_no_quantity_is_none(written: str | None) -> None:
    assert quantity(written) is None


def test_an_amount_is_shown_in_the_unit_of_another() -> None:
    assert show_quantity(Fraction(6 << 30), "4Gi") == "6Gi"
    assert show_quantity(Fraction(48), "40") == 48
    assert show_quantity(Fraction(1, 2), "1") == "500m"
