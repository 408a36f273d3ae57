"""Turn nested state into JSON and a list of tensors, and back; without pickle.

Containers become ``[tag, items]`` and scalars stay what they are, so nothing is ambiguous and
floats come back to the bit. What is neither is refused by name: silently leaving a piece of state
out would make two replicas differ.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from everstep_trainer.library.errors import UncarriableStateError

_SCALARS: Final = (bool, int, float, str, type(None))


class Packed:
    """State as text and tensors. The tensors are the caller's own, not copies."""

    def __init__(self, text: str, tensors: list[torch.Tensor]) -> None:
        self.text = text
        self.tensors = tensors

    def frozen(self) -> "Packed":
        """The same with copies of the tensors, so that later steps do not change it."""
        return Packed(self.text, [tensor.detach().clone() for tensor in self.tensors])

    def equals(self, other: "Packed") -> bool:
        """Whether both are the same state, to the bit."""
        return self.text == other.text and all(map(torch.equal, self.tensors, other.tensors))


def pack(value: object, where: str) -> Packed:
    """Take ``value`` apart; ``where`` says in errors whose state it is.

    Raises:
        UncarriableStateError: It holds something that is neither plain data nor a dense tensor.
    """
    tensors: list[torch.Tensor] = []
    return Packed(json.dumps(_encode(value, where, tensors)), tensors)


def unpack(packed: Packed) -> Any:
    """The value that was packed, with ``packed.tensors`` where its tensors were."""
    return _decode(json.loads(packed.text), packed.tensors)


def _encode(value: object, where: str, tensors: list[torch.Tensor]) -> Any:
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise UncarriableStateError(where, value)
        tensors.append(value.detach())
        return ["tensor", len(tensors) - 1]
    if isinstance(value, Counter):
        return ["counter", _encode_pairs(value, where, tensors)]
    if isinstance(value, Mapping):
        return ["dict", _encode_pairs(value, where, tensors)]
    if isinstance(value, (list, tuple)):
        items = [_encode(item, f"{where}[{at}]", tensors) for at, item in enumerate(value)]
        return ["tuple" if isinstance(value, tuple) else "list", items]
    raise UncarriableStateError(where, value)


def _encode_pairs(
    value: Mapping[Any, Any], where: str, tensors: list[torch.Tensor]
) -> list[list[Any]]:
    pairs = []
    for key, item in value.items():
        if not isinstance(key, _SCALARS):
            raise UncarriableStateError(f"a key of {where}", key)
        pairs.append([key, _encode(item, f"{where}[{key!r}]", tensors)])
    return pairs


def _decode(node: Any, tensors: list[torch.Tensor]) -> Any:
    if not isinstance(node, list):
        return node
    tag, items = node
    return _MAKERS[tag](items, tensors)


def _decode_pairs(pairs: Any, tensors: list[torch.Tensor]) -> dict[Any, Any]:
    return {key: _decode(item, tensors) for key, item in pairs}


_MAKERS: Final[dict[str, Callable[[Any, list[torch.Tensor]], Any]]] = {
    "tensor": lambda at, tensors: tensors[at],
    "list": lambda items, tensors: [_decode(item, tensors) for item in items],
    "tuple": lambda items, tensors: tuple(_decode(item, tensors) for item in items),
    "dict": _decode_pairs,
    "counter": lambda pairs, tensors: Counter(_decode_pairs(pairs, tensors)),
}
