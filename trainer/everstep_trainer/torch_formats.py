"""The state of tracked objects as torch's own ``load_state_dict`` takes it."""

from collections.abc import Mapping
from itertools import count
from typing import Any, Final

_OPTIMIZER_KEYS: Final = frozenset(("options", "parameters", "state"))


def stock_state(captured: Any) -> Any:
    """The state of one tracked object, in the form that the object's ``load_state_dict`` takes.

    An optimizer's is kept under the names of parameters, and torch's is by their places in its
    groups; all else is as torch has it. An optimizer of the same class, made over the same
    parameters in the same groups, then has the same state to the bit, as long as it is of the
    parameters' type: to that torch casts it.

    Args:
        captured: As `unpack` gives it, by the name that the object is tracked by.

    Returns:
        The same tensors, not copies.
    """
    if isinstance(captured, Mapping) and captured.keys() == _OPTIMIZER_KEYS:
        return _optimizer_state(captured)
    return captured


def _optimizer_state(captured: Mapping[str, Any]) -> dict[str, Any]:
    places, groups = count(), []
    place_of: dict[str, int] = {}
    for options, names in zip(captured["options"], captured["parameters"], strict=True):
        mine = dict(zip(names, places, strict=False))
        place_of.update(mine)
        groups.append({**options, "params": list(mine.values())})
    state = {place_of[name]: fields for name, fields in captured["state"].items()}
    return {"state": state, "param_groups": groups}
