"""Where the batches of a step come from.

The step's index drives the data, not the process: a step that is done again gets the same batches,
and one that a living copy has completed is never asked for again.

Three kinds of loaders are understood:

- an object with ``batches(step, rank, world_size)``, or a callable with these arguments: answers
  the micro-batches of that step for that rank. The choice for exactness: it needs no position.
- any other iterable (a ``DataLoader``, a list): one item is one step's only micro-batch, and it
  begins again when it ends. Its position lives in this process: a step done again gets the same
  item, steps that others completed for this worker are skipped, but a worker that comes later, or
  was restarted, begins at its first item, and nothing rewinds it when all go back to a snapshot.
- ``None``: no micro-batches; the script finds its data by ``step.index``.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, runtime_checkable

from everstep_trainer.library.errors import LoopError


@runtime_checkable
class StepLoader(Protocol):
    """Knows the data of any step."""

    def batches(self, step: int, rank: int, world_size: int) -> Iterable[Any]:
        """The micro-batches of one step for one rank, in order."""


Loader = StepLoader | Callable[[int, int, int], Iterable[Any]] | Iterable[Any] | None


class BatchSource:
    """One loader, asked for steps; lives as long as the process, whatever the generation."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self._ask = _asker(loader)  # once: telling loaders apart costs more than most of them do

    def batches(self, step: int, rank: int, world_size: int) -> tuple[Any, ...]:
        """The micro-batches of ``step``.

        Raises:
            LoopError: The loader has none.
        """
        found = tuple(self._ask(step, rank, world_size))
        if not found and self.loader is not None:
            raise LoopError(f"the loader has no batch for step {step} of rank {rank}")
        return found


def _asker(loader: Loader) -> Callable[[int, int, int], Iterable[Any]]:
    if loader is None:
        return lambda *_: ()
    if isinstance(loader, StepLoader):
        return loader.batches
    return loader if callable(loader) else _InOrder(loader)


class _InOrder:
    """An iterable, one item a step; skips what others completed for this worker."""

    def __init__(self, loader: Iterable[Any]) -> None:
        self._loader = loader
        self._items: Iterator[Any] | None = None
        self._step: int | None = None
        self._item: Any = None

    def __call__(self, step: int, _rank: int, _world_size: int) -> tuple[Any, ...]:
        ahead = 1 if self._step is None or step < self._step else step - self._step
        for _ in range(ahead):
            self._item = self._next()
        self._step = step
        return (self._item,)

    def _next(self) -> Any:
        for _ in range(2):  # the running pass over it, then a new one
            if self._items is None:
                self._items = iter(self._loader)
            for item in self._items:
                return item
            self._items = None
        raise LoopError("the loader is empty")
