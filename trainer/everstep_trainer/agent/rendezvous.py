"""Where an unmodified script's ``init_process_group()`` meets the others: its generation's store.

The store outlives generations, and torch gives its keys the same names each time; without a prefix
of its own a new group would find the addresses of the old one and wait for the dead.
"""

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from torch._C._distributed_c10d import PrefixStore, Store, TCPStore
from torch.distributed.rendezvous import _rendezvous_handlers

from everstep_trainer.agent.environment import STORE_PREFIX_VARIABLE

_DEFAULT_TIMEOUT: Final = timedelta(minutes=30)
"""Torch's own; the script may give another."""


def meet_on_the_generations_store() -> None:
    """Have ``env://``, torch's default, use the store and the prefix in the environment."""
    _rendezvous_handlers["env"] = _meet  # register_rendezvous_handler replaces nothing


def _meet(
    _url: str, timeout: timedelta = _DEFAULT_TIMEOUT, **_: Any
) -> Iterator[tuple[Store, int, int]]:
    store = TCPStore(
        os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, timeout=timeout
    )
    prefix = os.environ[STORE_PREFIX_VARIABLE]
    yield PrefixStore(prefix, store), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    raise RuntimeError("a script on the restart rung forms one group in its life")
