"""Kubernetes quantities, exactly."""

import re
from fractions import Fraction
from typing import Final

_QUANTITY: Final = re.compile(r"([0-9]{1,20}(?:\.[0-9]{0,9})?)([numkMGTPE]|[KMGTPE]i)?")
_UNITS: Final = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1000**power) for power, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGTPE", 1)},
}


def quantity(written: str | None) -> Fraction | None:
    """The amount that ``8``, ``500m`` or ``64Gi`` stand for; None for anything else."""
    found = _QUANTITY.fullmatch(written or "")
    if not found:
        return None
    return Fraction(found[1].rstrip(".")) * _UNITS.get(found[2], Fraction(1))


def show_quantity(amount: Fraction, like: str) -> str | int:
    """``amount`` in the unit of ``like`` where that is whole, else in the smallest that is."""
    unit = (_QUANTITY.fullmatch(like) or [None, None, None])[2]
    for tried in (unit, "", "m", "n"):
        share = amount / _UNITS.get(tried or "", Fraction(1))
        if share.denominator == 1:
            return f"{share}{tried}" if tried else int(share)
    return str(float(amount))
