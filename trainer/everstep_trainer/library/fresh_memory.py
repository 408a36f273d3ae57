"""Have the kernel find the pages of large new memory while something else is waited for.

New memory has no pages until it is written to, and finding them takes a good part of the time that
a disk needs for as many bytes. So a thread asks for them ahead of the reads that will fill them.
"""

import contextlib
import ctypes
import threading
from collections.abc import Iterable, Iterator
from typing import Final

import torch

_POPULATE_WRITE: Final = 23
"""MADV_POPULATE_WRITE (Linux 5.14); it changes no byte, so it may come late. Older: no effect."""
_PAGE_BYTES: Final = 4096
_STEP_BYTES: Final = 32 << 20
"""Asked for at once; between two, the thread looks whether it is still wanted."""


@contextlib.contextmanager
def populated(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Find the pages of the tensors, in their order, while the block runs."""
    is_over = threading.Event()
    threading.Thread(
        target=_populate, args=(tuple(tensors), is_over), name="fresh-memory", daemon=True
    ).start()
    try:
        yield
    finally:
        is_over.set()


def _populate(tensors: tuple[torch.Tensor, ...], is_over: threading.Event) -> None:
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for tensor in tensors:
        begin = -(-tensor.data_ptr() // _PAGE_BYTES) * _PAGE_BYTES
        end = (tensor.data_ptr() + tensor.nbytes) // _PAGE_BYTES * _PAGE_BYTES
        for at in range(begin, end, _STEP_BYTES):
            if is_over.is_set():
                return
            madvise(at, min(_STEP_BYTES, end - at), _POPULATE_WRITE)
