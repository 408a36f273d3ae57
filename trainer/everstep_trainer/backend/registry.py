"""Enter and leave generations: what torch keeps of them for the whole process.

torch has one default group, one registry of names and one set of caches for a process, so there is
one current generation here as well.
"""

import gc
import importlib
import os
import sys
import threading
import traceback

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import _DistributedBackendOptions
from torch.distributed import distributed_c10d

from everstep_trainer.backend import nccl
from everstep_trainer.backend.ending import Ending
from everstep_trainer.backend.errors import OutOfOrderError, causes
from everstep_trainer.backend.forming import make_group
from everstep_trainer.backend.group import BACKEND, InterruptibleGroup

PROVEN_TORCH = ("2.13",)
"""Versions that the whole suite has passed on; for another one the next rung is the safe choice."""


class Graveyard:
    """Generations that were left, kept until torch can destroy them.

    A group's destructor joins its threads, and a work that gloo has forgotten keeps its thread
    until the collective timeout. Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._endings: list[Ending] = []

    def bury(self, ending: Ending) -> None:
        """Keep ``ending`` and all that it holds."""
        with self._lock:
            self._endings.append(ending)

    def sweep(self) -> int:
        """Drop what is settled; the number of generations that are not.

        Runs destructors, some 10 ms for each group: a moment when nobody waits is a good one.
        """
        with self._lock:
            settled = [ending for ending in self._endings if ending.settled()]
            self._endings = [ending for ending in self._endings if ending not in settled]
            return len(self._endings)


graveyard = Graveyard()
_current: Ending | None = None


def is_proven_torch() -> bool:
    """Whether this torch is one that leaving and forming in place was proven on."""
    return torch.__version__.startswith(tuple(f"{version}." for version in PROVEN_TORCH))


def install() -> None:
    """Make the backend "everstep" known to torch; once a process, after its imports.

    Freezes what exists for the garbage collector, which makes a collection a generation cheap, and
    takes over two of torch's settings that would block or kill a process which loses a peer.
    """
    if not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])
    os.environ.pop("TORCH_DIST_INIT_BARRIER", None)  # blocks; forming has a barrier of its own
    nccl.prepare_environment()
    importlib.import_module("torch.distributed.tensor.debug")  # leaving has no time to import it
    gc.collect()
    gc.freeze()


def begin(generation: int) -> Ending:
    """Begin a generation: groups made from here on are its own, and end with it.

    ``leave`` the one before first.
    """
    global _current
    if _current is not None:
        raise OutOfOrderError(f"generation {_current.generation} has not been left")
    _current = Ending(generation)
    return _current


def leave(error: BaseException | None = None) -> None:
    """Forget the current generation, formed or not; on the thread that trains.

    Drop models and meshes of it first, as far as they are to be dropped: this collects them. The
    generation itself goes to the ``graveyard``. Does nothing when there is none.

    Args:
        error: What ended the script's work, if anything did. torch's autograd never lets go of an
            exception that passed through a backward, and it would keep all that is in sight of
            its traceback: so it loses that, and the frames it left lose their variables.
    """
    global _current
    if error is not None:
        _forget_frames(error)
    ending, _current = _current, None
    if dist.is_initialized():
        dist.destroy_process_group()
    distributed_c10d._world.group_count = 0  # else who was interrupted would name groups otherwise
    _clear_mesh_caches()
    _drain_backward()
    if ending is not None:
        graveyard.bury(ending)
    gc.collect()
    graveyard.sweep()


def _forget_frames(error: BaseException) -> None:
    for each in causes(error):
        traceback.clear_frames(each.__traceback__)  # of those that have returned
        each.__traceback__ = None  # so that those still running are let go of as well


def _node() -> torch.Tensor:
    return torch.ones(1, device="cpu", requires_grad=True) * 1


def _drain_backward() -> None:
    """Have autograd drop what an interrupted backward left in this thread's queue.

    It holds the model's graph. The queue takes the newest first and numbers are given by thread, so
    a backward through a node of a fresh thread passes by all that is left.
    """
    made: list[torch.Tensor] = []
    thread = threading.Thread(target=lambda: made.append(_node()))
    thread.start()
    thread.join()
    made[0].backward()  # type: ignore[no-untyped-call]  # torch's


def _create(options: _DistributedBackendOptions, _given: object) -> InterruptibleGroup:
    if _current is None:
        raise OutOfOrderError("torch was asked for a group outside any generation")
    return make_group(options, _current)


def _clear_mesh_caches() -> None:
    """Forget what torch remembers by mesh.

    A mesh of the next generation equals one of this when the ranks are the same, so answers would
    come back with the old mesh in them, and the old groups would be kept alive.
    """
    if "torch.distributed.tensor" not in sys.modules:
        return
    from torch.distributed.tensor import DTensor, _collective_utils, _redistribute
    from torch.distributed.tensor.debug import _clear_sharding_prop_cache

    _clear_sharding_prop_cache()  # type: ignore[no-untyped-call]  # torch's
    _redistribute.clear_redistribute_planner_cache()
    _redistribute._gen_transform_infos.cache_clear()
    _collective_utils.MeshTopoInfo.build_from_mesh.cache_clear()
    DTensor._op_dispatcher.sharding_propagator._propagate_tensor_meta_cached.cache_clear()
