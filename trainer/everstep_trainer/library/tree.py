"""Turn nested state into JSON and named tensors, and back; without pickle.

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
Tensors = dict[str, torch.Tensor]


class Packed:
    """State as text and tensors. The tensors are the caller's own, not copies.

    A tensor's name is its way through the containers, joined by dots: what stock tools show.
    """

    def __init__(self, text: str, tensors: Tensors) -> None:
        self.text = text
        self.tensors = tensors

    def frozen(self) -> "Packed":
        """The same with copies of the tensors, so that later steps do not change it."""
        copies = {name: tensor.detach().clone() for name, tensor in self.tensors.items()}
        return Packed(self.text, copies)

    def equals(self, other: "Packed") -> bool:
        """Whether both are the same state, to the bit."""
        return self.text == other.text and all(
            torch.equal(tensor, other.tensors[name]) for name, tensor in self.tensors.items()
        )


def pack(value: object, where: str) -> Packed:
    """Take ``value`` apart; ``where`` says in errors whose state it is.

    Raises:
        UncarriableStateError: It holds something that is neither plain data nor a plain tensor.
    """
    packer = _Packer()
    return Packed(json.dumps(packer.encode(value, where, "")), packer.tensors)


def unpack(packed: Packed) -> Any:
    """The value that was packed, with ``packed.tensors`` where its tensors were."""
    return _decode(json.loads(packed.text), packed.tensors)


class _Packer:
    def __init__(self) -> None:
        self.tensors: Tensors = {}

    def encode(self, value: object, where: str, name: str) -> Any:
        if isinstance(value, _SCALARS):
            return value
        if isinstance(value, torch.Tensor):
            return ["tensor", [self._take(value, where, name), value.device.type]]
        if isinstance(value, Counter):
            return ["counter", self._pairs(value, where, name)]
        if isinstance(value, Mapping):
            return ["dict", self._pairs(value, where, name)]
        if isinstance(value, (list, tuple)):
            items = [
                self.encode(item, f"{where}[{at}]", _under(name, at))
                for at, item in enumerate(value)
            ]
            return ["tuple" if isinstance(value, tuple) else "list", items]
        raise UncarriableStateError(where, value)

    def _take(self, tensor: torch.Tensor, where: str, name: str) -> str:
        kind = _odd_kind(tensor)
        if kind:
            raise UncarriableStateError(where, tensor, f"{kind} tensor")
        while name in self.tensors:  # two ways of the same spelling
            name += "'"
        self.tensors[name] = tensor.detach()
        return name

    def _pairs(self, value: Mapping[Any, Any], where: str, name: str) -> list[list[Any]]:
        pairs = []
        for key, item in value.items():
            if not isinstance(key, _SCALARS):
                raise UncarriableStateError(f"a key of {where}", key)
            pairs.append([key, self.encode(item, f"{where}[{key!r}]", _under(name, key))])
        return pairs


def _odd_kind(tensor: torch.Tensor) -> str:
    """What keeps a tensor from being so many plain elements in memory; empty for nothing."""
    if tensor.layout is not torch.strided:
        return str(tensor.layout).removeprefix("torch.")
    if tensor.is_quantized:
        return "quantized"
    return "meta" if tensor.is_meta else ""


def _under(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)


def _decode(node: Any, tensors: Tensors) -> Any:
    if not isinstance(node, list):
        return node
    tag, items = node
    return _MAKERS[tag](items, tensors)


def _tensor(items: Any, tensors: Tensors) -> torch.Tensor:
    """It may have gone through the CPU on its way."""
    name, device = items
    return tensors[name] if tensors[name].device.type == device else tensors[name].to(device)


def _decode_pairs(pairs: Any, tensors: Tensors) -> dict[Any, Any]:
    return {key: _decode(item, tensors) for key, item in pairs}


_MAKERS: Final[dict[str, Callable[[Any, Tensors], Any]]] = {
    "tensor": _tensor,
    "list": lambda items, tensors: [_decode(item, tensors) for item in items],
    "tuple": lambda items, tensors: tuple(_decode(item, tensors) for item in items),
    "dict": _decode_pairs,
    "counter": lambda pairs, tensors: Counter(_decode_pairs(pairs, tensors)),
}
