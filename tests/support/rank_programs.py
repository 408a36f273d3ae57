"""What ranks do in the tests of the backend: obey orders, train, hurt themselves where asked.

Each generation starts afresh from one seed, so its losses depend on nothing but its world size:
what a disturbed job computes can be compared, bit by bit, with a job that nothing happened to.
"""

import os
import queue
import signal
import socket
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from everstep_trainer.backend import (
    BACKEND,
    Ending,
    Formation,
    StoreClients,
    begin,
    form,
    graveyard,
    host_store,
    install,
    leave,
)
from everstep_trainer.backend.errors import FormingFailedError
from everstep_trainer.backend.group import InterruptibleGroup
from everstep_trainer.backend.transport import Transport
from support.ranks import Link
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

WIDTH = 64
BLOCKS = 3
ORDER_SECONDS = 60.0

Order = dict[str, Any]


class Trainee:
    """A rank that forms as ordered, works until the generation ends, leaves, and waits.

    Args:
        me: The number by which orders list this rank.
        work: Name of what it does in a generation.
        fault: ``{"at": place, "generation": n, "count": k, "signal": name}``: hurt yourself when
            you come to this place for the k-th time in that generation.
    """

    def __init__(self, link: Link, me: int, work: str, fault: Order | None = None) -> None:
        self.link = link
        self.me = me
        self.work = WORKS[work]
        self.fault = dict(fault) if fault else None
        self.stores = StoreClients()
        self.orders: queue.Queue[Order] = queue.Queue()
        self.ending: Ending | None = None
        self.newest = -1
        self.lock = threading.Lock()
        torch.set_num_threads(1)
        install()
        self._watch_places()
        threading.Thread(target=self._listen, daemon=True).start()

    def run(self) -> None:
        while True:
            order = self.orders.get(timeout=ORDER_SECONDS)
            if "finish" in order:
                return
            if order["generation"] == self.newest:
                self._generation(order)

    def come_to(self, place: str) -> None:
        fault, ending = self.fault, self.ending
        if not fault or not ending or place != fault["at"]:
            return
        if ending.generation == fault["generation"]:
            fault["count"] -= 1
            if fault["count"] == 0:
                self.fault = None
                self.link.say("hurt", place=place)
                # to this thread, so that it does not run on while another one takes the signal
                signal.pthread_kill(threading.get_ident(), signal.Signals[fault["signal"]])

    def _listen(self) -> None:
        for order in self.link.hear():
            with self.lock:
                self.newest = order.get("generation", self.newest)
                if self.ending and self.ending.generation < self.newest:
                    self.ending.end(f"generation {self.newest} is ordered")
            self.orders.put(order)

    def _generation(self, order: Order) -> None:
        generation = order["generation"]
        with self.lock:
            ending = self.ending = begin(generation)
            if generation < self.newest:
                ending.end("a newer one is ordered")
        try:
            self._form(order, ending)
            self.link.say("formed", generation=generation)
            self.work(self, ending)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test is told
            missing = error.missing if isinstance(error, FormingFailedError) else ()
            self.link.say(
                "out",
                generation=generation,
                kind=type(error).__name__,
                text=str(error)[:500],
                ended=ending.reason is not None,
                missing=missing,
                failed=ending.failure.collective if ending.failure else None,
            )
            with self.lock:
                self.ending = None
            leave(error)
        self.link.say("left", generation=generation, buried=graveyard.sweep(), **usage())

    def _form(self, order: Order, ending: Ending) -> None:
        members = order["members"]
        client = self.stores.get(order["host"], order["port"], ending)
        self.link.say("connected", generation=order["generation"])
        formation = Formation(
            prefix=order.get("prefix", f"g{order['generation']}"),
            rank=members.index(self.me),
            world_size=len(members),
            form_timeout=timedelta(seconds=order.get("form_seconds", 30)),
        )
        form(client, formation, ending)

    def _watch_places(self) -> None:
        """Tell the test, and the fault, of each collective and of each group that is connected."""
        group: Any = InterruptibleGroup
        issue, connect = group._issue, Transport.connect

        def watched_issue(group: Any, *args: Any, **more: Any) -> Any:
            self.come_to("collective")
            return issue(group, *args, **more)

        def watched_connect(transport: Transport, *args: Any) -> Any:
            self.link.say("connecting")
            self.come_to("connect")
            return connect(transport, *args)

        group._issue = watched_issue
        transport: Any = Transport
        transport.connect = watched_connect


def trainee(link: Link, environment: dict[str, str], **settings: Any) -> None:
    os.environ.update(environment)
    Trainee(link, **settings).run()


def store(link: Link, **_settings: Any) -> None:
    """Host a store; on each word, drop it, take its port, and host another one."""
    hosted, squatters = host_store("127.0.0.1"), []
    link.say("hosting", port=hosted.port)
    for _ in link.hear():
        port = hosted.port
        del hosted
        squatters.append(_squat(port))
        hosted = host_store("127.0.0.1")
        link.say("hosting", port=hosted.port, squatted=[port])


def _squat(port: int) -> socket.socket:
    squatter = socket.socket()
    squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    squatter.bind(("127.0.0.1", port))
    squatter.listen()
    return squatter


def usage() -> dict[str, int]:
    """What this process holds of the machine."""
    status = Path("/proc/self/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in status if ":" in line)
    return {
        "rss_bytes": int(fields["VmRSS"].split()[0]) * 1024,
        "threads": int(fields["Threads"]),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }


def model() -> torch.nn.Sequential:
    torch.manual_seed(7)
    layers = [(torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU()) for _ in range(BLOCKS)]
    return torch.nn.Sequential(*[layer for pair in layers for layer in pair])


def train(trainee: Trainee, ending: Ending, net: Callable[..., Any], own: torch.nn.Module) -> None:
    """Step until the generation ends."""
    optimizer = torch.optim.SGD(own.parameters(), lr=0.1, momentum=0.9)
    rank, step = dist.get_rank(), 0
    while True:
        generator = torch.Generator().manual_seed(step * 1000 + rank)
        loss = net(torch.randn(4, WIDTH, generator=generator)).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(own.parameters(), 1.0)
        ending.check()
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        trainee.link.say(
            "step", generation=ending.generation, step=step, loss=loss.item().hex(), rank=rank
        )


def all_reduce(trainee: Trainee, ending: Ending) -> None:
    numbers, step = torch.ones(1 << 20), 0
    while True:
        numbers.fill_(1.0)
        dist.all_reduce(numbers)
        step += 1
        trainee.link.say(
            "step",
            generation=ending.generation,
            step=step,
            loss=float(numbers[0]).hex(),
            rank=dist.get_rank(),
        )


def ddp(trainee: Trainee, ending: Ending) -> None:
    net = DistributedDataParallel(model(), bucket_cap_mb=0.02)
    train(trainee, ending, net, net)


def fsdp(trainee: Trainee, ending: Ending) -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    net = model()
    for block in net:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    train(trainee, ending, net, net)


def hsdp(trainee: Trainee, ending: Ending) -> None:
    shape = (dist.get_world_size() // 2, 2)
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard"))
    net = model()
    for block in net:
        fully_shard(block, mesh=mesh)
    fully_shard(net, mesh=mesh)
    train(trainee, ending, net, net)


def full_tensors(trainee: Trainee, ending: Ending) -> None:
    """Gather thirty sharded tensors a step, as a checkpoint does; each has its own sum."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = [torch.full((2 * dist.get_world_size(), 8), float(n)) for n in range(30)]
    sharded, step = [distribute_tensor(each, mesh, [Shard(0)]) for each in whole], 0
    while True:
        gathered = [each.full_tensor() for each in sharded]
        assert all(torch.equal(got, want) for got, want in zip(gathered, whole, strict=True))
        step += 1
        trainee.link.say("step", generation=ending.generation, step=step)


def rest(_trainee: Trainee, ending: Ending) -> None:
    """Form and do nothing."""
    ended = threading.Event()
    ending.on_end(ended.set)
    ended.wait(ORDER_SECONDS)
    ending.check()


def tour(trainee: Trainee, ending: Ending) -> None:
    """Call what scripts and libraries call, beside training, and tell what came of it."""
    rank, size, numbers = dist.get_rank(), dist.get_world_size(), torch.ones(2)
    objects: list[Any] = [None] * size
    dist.all_gather_object(objects, rank)
    spread = [f"from {rank}"]
    dist.broadcast_object_list(spread, src=1)
    exchanged = [torch.zeros(1) for _ in range(size)]
    dist.all_to_all(exchanged, [torch.tensor([10.0 * rank + to]) for to in range(size)])
    world = dist.new_group([0, 1])
    compiled = torch.compile(lambda x: funcol.all_reduce(x * 2, "sum", world) + 1, backend="eager")
    trainee.link.say(
        "toured",
        objects=objects,
        spread=spread,
        exchanged=[float(each) for each in exchanged],
        compiled=compiled(numbers).tolist(),
        backend=dist.get_backend(world),
    )
    rest(trainee, ending)


WORKS: dict[str, Callable[[Trainee, Ending], None]] = {
    work.__name__: work for work in (all_reduce, ddp, fsdp, hsdp, full_tensors, rest, tour)
}
__all__ = ["BACKEND", "Trainee", "store", "trainee"]
