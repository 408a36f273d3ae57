"""How long training stands still for a snapshot: ours, a bare copy, and what others do.

Everything saves the same tensors, in turns, in one process; what another saver does in the
background is waited for before the next one's turn.
"""

import gc
import shutil
import socket
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from bench.checkpoint_state import Cost, cost_of, tensors_of
from everstep_checkpoint.slots import SlotPair
from everstep_trainer.library.agreement import Version
from everstep_trainer.library.copying import CpuCopier
from everstep_trainer.library.replica import Replica
from everstep_trainer.library.rng import capture_rng, to_json
from everstep_trainer.library.snapshots import Snapshots
from everstep_trainer.library.transfer import Place
from everstep_trainer.library.tree import pack
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType, async_save

PLACE = Place(0, 1, 0, torch.device("cpu"))
Save = Callable[[int], Cost]
"""Takes the sample's number; what is left to be done in the background has been done after it."""


class Ours:
    """Snapshots as a worker takes them, its random states included."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self.slots = SlotPair.create("state"), SlotPair.create("rank")
        self.snapshots = Snapshots(*self.slots, CpuCopier())

    def save(self, sample: int) -> Cost:
        """One snapshot."""
        return cost_of(lambda: self._take(sample))

    def _take(self, step: int) -> None:
        def capture() -> Any:
            return pack(self._replica.capture(), "state")

        assert self.snapshots.take(Version(1, step), PLACE, capture, to_json(capture_rng()))


class Rivals:
    """The same tensors by other means.

    Args:
        replica: Whose.
        folder: Where those that write write.
    """

    def __init__(self, replica: Replica, folder: Path) -> None:
        self._tensors = tensors_of(replica)
        self._folder = folder
        self._copies = {name: torch.empty_like(t).zero_() for name, t in self._tensors.items()}

    def bare_copy(self, _sample: int) -> Cost:
        """Into memory that is there: what cannot be beaten."""

        def copy() -> None:
            for name, tensor in self._tensors.items():
                self._copies[name].copy_(tensor)

        return cost_of(copy)

    def torch_save(self, sample: int) -> Cost:
        """To a file."""
        return self._in_folder(sample, lambda path: torch.save(self._tensors, path / "state.pt"))

    def clone_then_thread(self, sample: int) -> Cost:
        """Clone everything, and have a thread write it."""
        threads: list[threading.Thread] = []

        def save(path: Path) -> None:
            clones = {name: tensor.clone() for name, tensor in self._tensors.items()}
            thread = threading.Thread(target=torch.save, args=(clones, path / "state.pt"))
            thread.start()
            threads.append(thread)

        return self._in_folder(sample, save, lambda: threads[0].join())

    def dcp_thread(self, sample: int) -> Cost:
        """`dcp.async_save` with its thread."""
        return self._dcp(sample, AsyncCheckpointerType.THREAD)

    def dcp_process(self, sample: int) -> Cost:
        """`dcp.async_save` with its process."""
        return self._dcp(sample, AsyncCheckpointerType.PROCESS)

    def _dcp(self, sample: int, kind: AsyncCheckpointerType) -> Cost:
        futures: list[Any] = []

        def save(path: Path) -> None:
            saved: Any = async_save(
                dict(self._tensors), checkpoint_id=path, async_checkpointer_type=kind
            )
            futures.append(getattr(saved, "upload_completion", saved))

        return self._in_folder(sample, save, lambda: futures[0].result())

    def _in_folder(
        self,
        sample: int,
        save: Callable[[Path], Any],
        wait: Callable[[], Any] = lambda: None,
    ) -> Cost:
        path = self._folder / f"sample-{sample}"
        path.mkdir()
        cost = cost_of(lambda: save(path))
        wait()
        shutil.rmtree(path)
        gc.collect()
        return cost


def measure(replica: Replica, folder: Path, samples: int) -> dict[str, list[Cost]]:
    """Costs by saver; the first turn of each is not counted: it allocates what it needs."""
    warnings.filterwarnings("ignore", module="torch")
    torch.set_num_threads(1)
    ours, rivals = Ours(replica), Rivals(replica, folder)
    savers: dict[str, Save] = {
        "bare copy": rivals.bare_copy,
        "everstep": ours.save,
        "torch.save": rivals.torch_save,
        "clone, then a thread": rivals.clone_then_thread,
        "dcp.async_save, thread": rivals.dcp_thread,
        "dcp.async_save, process": rivals.dcp_process,
    }
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{_port()}", rank=0, world_size=1)
    try:
        costs: dict[str, list[Cost]] = {name: [] for name in savers}
        for sample in range(samples + 1):
            for name, save in savers.items():
                costs[name].append(save(sample))
    finally:
        dist.destroy_process_group()
    return {name: found[1:] for name, found in costs.items()}


def _port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
