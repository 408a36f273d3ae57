"""Process groups that an order can end at any moment, and that the same process can form again.

    install()                                   # once a process, after the imports
    stores = StoreClients()
    while True:
        ending = begin(generation)              # another thread may now ending.end("why")
        try:
            form(stores.get(host, port, ending), Formation(...), ending)
            ...                                 # DDP, fully_shard, init_device_mesh as usual
            ending.check()                      # just before the optimizer steps
            error = None
        except BaseException as raised:
            error = raised
            if ending.reason is None:           # not by an order: report it, wait for one
                ...
        leave(error)                            # the next turn forms again

``graveyard.sweep()`` now and then drops old generations that torch has let go of.
"""

from everstep_trainer.backend.ending import SLICE, Ending
from everstep_trainer.backend.errors import (
    BackendError,
    CollectiveFailedError,
    FormingFailedError,
    GenerationEnded,
    OutOfOrderError,
    StoreUnreachableError,
    TransportError,
)
from everstep_trainer.backend.forming import Formation, form
from everstep_trainer.backend.group import BACKEND
from everstep_trainer.backend.registry import (
    Graveyard,
    begin,
    graveyard,
    install,
    is_proven_torch,
    leave,
)
from everstep_trainer.backend.store import StoreClient, StoreClients, host_store

__all__ = [
    "BACKEND",
    "SLICE",
    "BackendError",
    "CollectiveFailedError",
    "Ending",
    "Formation",
    "FormingFailedError",
    "GenerationEnded",
    "Graveyard",
    "OutOfOrderError",
    "StoreClient",
    "StoreClients",
    "StoreUnreachableError",
    "TransportError",
    "begin",
    "form",
    "graveyard",
    "host_store",
    "install",
    "is_proven_torch",
    "leave",
]
