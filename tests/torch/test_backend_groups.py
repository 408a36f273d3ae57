"""What torch may ask of a process group: all of it is overridden or refused, and ends in time.

Two ranks in one process, each with a generation of its own, so that every interleaving of their
calls can be written down.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist
from everstep_trainer.backend import CollectiveFailedError, Ending, GenerationEnded
from everstep_trainer.backend.group import InterruptibleGroup
from everstep_trainer.backend.transport import Transport
from torch._C._distributed_c10d import (
    AllreduceCoalescedOptions,
    BroadcastOptions,
    GatherOptions,
    HashStore,
    PrefixStore,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)

SECONDS = 60.0
CONNECTING = timedelta(seconds=10)

INHERITED = {
    *("BackendType", "CUSTOM", "GLOO", "MPI", "NCCL", "UCC", "UNDEFINED", "XCCL"),
    *("rank", "size", "name", "group_name", "group_desc", "bound_device_id", "boxed", "unbox"),
    *("use_pg_for_symm_mem_rendezvous", "_id", "_backend_id", "_device_types", "_get_backend"),
    *("_get_backend_name", "_get_sequence_number_for_group", "_has_hooks", "_register_backend"),
    *("_set_default_backend", "_set_group_desc", "_set_group_name"),
    *("_set_sequence_number_for_group", "_pybind11_conduit_v1_"),
}
"""What torch's own class does itself: names, numbers, and what is registered. No communication."""

REFUSED = (
    *("send", "recv", "recv_anysource", "monitored_barrier", "_start_coalescing"),
    *("_end_coalescing", "split_group", "merge_remote_group", "abort"),
    *("_register_on_completion_hook", "_enable_collectives_timing", "_wait_for_pending_works"),
)


class Pair:
    """Two ranks' groups, and the same two connected by plain gloo."""

    def __init__(self) -> None:
        self.store = HashStore()
        self.endings = [Ending(generation=7), Ending(generation=7)]
        self.transports = [Transport(CONNECTING), Transport(CONNECTING)]
        with ThreadPoolExecutor(2) as threads:
            gloos = list(threads.map(self._connect, (0, 1), ("ours", "ours")))
            self.plain = list(threads.map(self._connect, (0, 1), ("plain", "plain")))
        for ending, transport in zip(self.endings, self.transports, strict=True):
            ending.on_end(transport.cut)
        self.groups = [
            InterruptibleGroup(gloo, self.store, ending, timedelta(seconds=SECONDS))
            for gloo, ending in zip(gloos, self.endings, strict=True)
        ]

    def _connect(self, rank: int, name: str) -> Any:
        return self.transports[rank].connect(PrefixStore(name, self.store), rank, 2)


@pytest.fixture
def pair() -> Pair:
    return Pair()


@pytest.fixture
def waiting() -> Iterator[Callable[[Any], Any]]:
    """``waiting(work)``: a future of ``work.wait()`` on a thread of its own."""
    with ThreadPoolExecutor(4) as threads:
        yield lambda work: threads.submit(work.wait)


def numbers(rank: int, count: int = 8) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(count, generator=generator)


def eventually(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_every_method_of_a_process_group_is_overridden_or_refused_or_known_to_be_harmless() -> None:
    methods = {name for name in dir(dist.ProcessGroup) if not name.startswith("__")}
    assert methods - vars(InterruptibleGroup).keys() == INHERITED


def test_every_method_of_a_work_is_overridden_or_known_to_be_harmless() -> None:
    from everstep_trainer.backend.works import InterruptibleWork, InterruptibleWorks

    methods = {name for name in dir(dist.Work) if not name.startswith("__")}
    harmless = {
        *("_get_duration", "_get_op_type", "_pybind11_conduit_v1_", "_source_rank", "source_rank"),
        *("boxed", "unbox", "block_current_stream", "get_future_result"),
    }
    assert methods - vars(InterruptibleWork).keys() == harmless
    assert methods - vars(InterruptibleWorks).keys() == harmless


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_not_be_interrupted_is_refused_and_says_why(pair: Pair, name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"{name} on backend 'everstep': .+"):
        getattr(pair.groups[0], name)()


def test_a_collective_that_goes_past_the_wrapper_fails_instead_of_hanging(pair: Pair) -> None:
    with pytest.raises(RuntimeError, match="error_on_collective"):
        dist.ProcessGroup.all_gather_single(pair.groups[0], empty(16), numbers(0))


def parts(value: torch.Tensor) -> list[torch.Tensor]:
    return [part.clone() for part in value.chunk(2)]


def empty(count: int) -> torch.Tensor:
    return torch.zeros(count)


def rooted(options: Any) -> Any:
    options.rootRank = 1
    return options


Call = Callable[[Any, int], tuple[Any, Any]]
"""(group, rank) -> (its work, what it writes to)."""


def issue(name: str, out: Any, *arguments: Any) -> Call:
    def call(group: Any, rank: int) -> tuple[Any, Any]:
        written = out(rank)
        given = [each(rank) if callable(each) else each for each in arguments]
        return getattr(group, name)(written, *given), written

    return call


COLLECTIVES: dict[str, Call] = {
    "allreduce": issue("allreduce", lambda r: [numbers(r)]),
    "allreduce_coalesced": issue(
        "allreduce_coalesced",
        lambda r: [numbers(r), numbers(r + 2)],
        lambda _: AllreduceCoalescedOptions(),
    ),
    "broadcast": issue("broadcast", lambda r: [numbers(r)], lambda _: rooted(BroadcastOptions())),
    "reduce": issue("reduce", lambda r: [numbers(r)], lambda _: rooted(ReduceOptions())),
    "allgather": issue("allgather", lambda _: [parts(empty(16))], lambda r: [numbers(r)]),
    "allgather_coalesced": issue(
        "allgather_coalesced", lambda _: [[empty(8)], [empty(8)]], lambda r: [numbers(r)]
    ),
    "_allgather_base": issue("_allgather_base", lambda _: empty(16), numbers),
    "gather": issue(
        "gather",
        lambda r: [parts(empty(16))] if r == 1 else [],
        lambda r: [numbers(r)],
        lambda _: rooted(GatherOptions()),
    ),
    "scatter": issue(
        "scatter",
        lambda _: [empty(4)],
        lambda r: [parts(numbers(r))] if r == 1 else [],
        lambda _: rooted(ScatterOptions()),
    ),
    "alltoall_base": issue(
        "alltoall_base",
        lambda r: empty(6 if r == 0 else 10),
        numbers,
        lambda r: [3, 3] if r == 0 else [5, 5],
        lambda _: [3, 5],
    ),
    "_reduce_scatter_base": issue(
        "_reduce_scatter_base", lambda _: empty(4), numbers, lambda _: ReduceScatterOptions()
    ),
    "reduce_scatter": issue(
        "reduce_scatter",
        lambda _: [empty(4)],
        lambda r: [parts(numbers(r))],
        lambda _: ReduceScatterOptions(),
    ),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_a_collective_gives_what_plain_gloo_gives_to_the_bit(pair: Pair, name: str) -> None:
    results = []
    for groups in (pair.groups, pair.plain):
        issued = [COLLECTIVES[name](group, rank) for rank, group in enumerate(groups)]
        for work, _ in issued:
            work.wait()
        results.append([str(flat(written)) for _, written in issued])
    assert results[0] == results[1]


def flat(written: Any) -> list[Any]:
    if isinstance(written, torch.Tensor):
        return [value.hex() for value in written.tolist()]
    return [flat(each) for each in written]


@pytest.mark.parametrize("name", [*COLLECTIVES, "barrier"])
def test_a_work_completes_without_being_waited_for(pair: Pair, name: str) -> None:
    if name == "barrier":
        works = [group.barrier() for group in pair.groups]
    else:
        works = [COLLECTIVES[name](group, rank)[0] for rank, group in enumerate(pair.groups)]
    eventually(lambda: all(work.is_completed() for work in works))
    assert all(work.is_success() for work in works)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_an_ending_frees_who_waits_for_a_peer_that_never_comes(
    pair: Pair, waiting: Callable[[Any], Any], name: str
) -> None:
    rank = 0 if name in ("broadcast", "scatter") else 1  # who cannot do without the other
    work, _ = COLLECTIVES[name](pair.groups[rank], rank)
    waiter = waiting(work)
    assert not work.is_completed()
    pair.endings[rank].end("a newer order")
    error = waiter.exception(SECONDS)
    assert isinstance(error, GenerationEnded)
    assert (error.generation, error.reason) == (7, "a newer order")


def test_slices_that_run_out_leave_the_group_usable(
    pair: Pair, waiting: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = threading.Semaphore(0)
    mine = [numbers(0)]
    work = pair.groups[0].allreduce(mine)
    lasting = work._completes_in_a_slice

    def counted() -> bool:
        done: bool = lasting()
        slices.release()
        return done

    monkeypatch.setattr(work, "_completes_in_a_slice", counted)
    waiter = waiting(work)
    for _ in range(5):
        assert slices.acquire(timeout=SECONDS)
    pair.groups[1].allreduce([numbers(1)]).wait()
    assert waiter.result(SECONDS)
    assert torch.equal(mine[0], numbers(0) + numbers(1))


def test_a_wait_with_a_timeout_keeps_it_and_can_be_repeated(pair: Pair) -> None:
    work = pair.groups[0].allreduce([numbers(0)])
    with pytest.raises(CollectiveFailedError, match="allreduce failed: not complete after"):
        work.wait(timedelta(milliseconds=50))
    pair.groups[1].allreduce([numbers(1)])
    assert work.wait()


def test_a_future_is_over_when_the_work_is(pair: Pair) -> None:
    future = pair.groups[0].allreduce([numbers(0)]).get_future()
    pair.groups[1].allreduce([numbers(1)])
    assert torch.equal(future.wait()[0], numbers(0) + numbers(1))


def test_a_future_of_a_coalesced_work_is_over_when_all_of_it_is(pair: Pair) -> None:
    outputs = [empty(4), empty(2)]
    works = [
        group.reduce_scatter_single_coalesced(
            outputs if rank == 0 else [empty(4), empty(2)], [numbers(rank), numbers(rank, 4)]
        )
        for rank, group in enumerate(pair.groups)
    ]
    works[0].get_future().wait()
    assert torch.equal(outputs[1], (numbers(0, 4) + numbers(1, 4))[:2])


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_future_is_an_error_when_the_generation_ends(pair: Pair, when: str) -> None:
    work = pair.groups[0].allreduce([numbers(0)])
    if when == "before":
        pair.endings[0].end("a newer order")
    future = work.get_future()
    pair.endings[0].end("a newer order")
    with pytest.raises(RuntimeError, match="GenerationEnded: generation 7 ended: a newer order"):
        future.wait()


def test_a_broken_connection_is_a_failed_collective_and_is_remembered(
    pair: Pair, waiting: Callable[[Any], Any]
) -> None:
    waiter = waiting(pair.groups[0].allreduce([numbers(0)]))
    pair.transports[1].cut()
    error = waiter.exception(SECONDS)
    assert isinstance(error, CollectiveFailedError)
    assert pair.endings[0].failure is error


def test_nothing_is_issued_once_the_generation_is_over(pair: Pair) -> None:
    pair.endings[0].end("a newer order")
    with pytest.raises(GenerationEnded):
        pair.groups[0].barrier()


def test_a_generation_is_settled_when_no_work_is_left_in_it(pair: Pair) -> None:
    pair.groups[0].allreduce([numbers(0)])
    assert not pair.endings[0].settled()
    pair.groups[1].allreduce([numbers(1)])
    eventually(pair.endings[0].settled)


def test_a_cut_leaves_the_scripts_own_connections_alone(pair: Pair) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        mine = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        assert pair.transports[0].cut() > 0
        with mine, theirs:
            mine.sendall(b"still here")
            assert theirs.recv(16) == b"still here"
