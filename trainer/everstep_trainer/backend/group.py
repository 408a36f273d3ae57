"""The process group that training sees: gloo's, with every wait interruptible.

torch takes a Python ``ProcessGroup`` as it is, for the world and for every group of a device mesh,
so DDP, ``fully_shard`` and DTensor need no hook. The price is that whatever is not overridden here
would go past it into the backend that is registered in the group. So what is registered is torch's
fake one, told to fail on every collective: a method that a new torch adds is refused, not bypassed.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Final

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllreduceOptions,
    FakeProcessGroup,
    ReduceScatterOptions,
    Store,
)

from everstep_trainer.backend.ending import Ending
from everstep_trainer.backend.works import InterruptibleWork, InterruptibleWorks

BACKEND: Final = "everstep"


def _collective(called: str) -> Any:
    """The method that issues gloo's collective of this name and returns its work."""

    def issue(self: "InterruptibleGroup", *args: Any, **kwargs: Any) -> dist.Work:
        return self._issue(called, *args, **kwargs)

    return issue


def _refused(name: str, why: str) -> Any:
    """The method that says why there is no such thing here."""

    def refuse(_self: "InterruptibleGroup", *_args: Any, **_kwargs: Any) -> Any:
        raise NotImplementedError(f"{name} on backend {BACKEND!r}: {why}")

    return refuse


_POINT_TO_POINT = (
    "it could not be interrupted, because gloo closes the connection when such a wait runs out;"
    " use a collective, or a group of backend 'gloo' outside what Everstep heals"
)
_BLOCKS = "it blocks inside gloo, where no order could interrupt it; use barrier"
_COALESCES = "gloo cannot coalesce; issue the collectives one by one"
_DERIVES = "make the group with new_group, so that it ends with its generation"
_HOOKS = "only the NCCL backend has it"


class InterruptibleGroup(dist.ProcessGroup):
    """One group of a generation.

    Args:
        gloo: The connected group that does the work.
        store: Where it met.
        ending: Of its generation; keeps ``gloo`` until no work is left in it.
        timeout: Longest that a collective may take.
    """

    def __init__(
        self, gloo: dist.ProcessGroupGloo, store: Store, ending: Ending, timeout: timedelta
    ) -> None:
        # a subclass can only be made without a store, which torch's types do not know
        super().__init__(gloo.rank(), gloo.size())  # type: ignore[call-arg]
        self._gloo = gloo
        self._store = store
        self._ending = ending
        self.set_timeout(timeout)
        kind = dist.ProcessGroup.BackendType.CUSTOM
        self._register_backend(torch.device("cpu"), kind, _decoy(gloo.rank(), gloo.size()))
        self._set_default_backend(kind)

    def getBackendName(self) -> str:  # noqa: N802 - the name by which torch looks it up
        return BACKEND

    def get_group_store(self) -> Store:
        return self._store

    def set_timeout(self, timeout: timedelta) -> None:
        self._timeout = timeout
        self._gloo.set_timeout(timeout)

    def shutdown(self) -> None:
        """Nothing: a group ends with its generation."""

    allreduce = _collective("allreduce")
    allreduce_coalesced = _collective("allreduce_coalesced")
    broadcast = _collective("broadcast")
    reduce = _collective("reduce")
    allgather = _collective("allgather")
    allgather_coalesced = _collective("allgather_coalesced")
    all_gather_single = _collective("_allgather_base")
    _allgather_base = all_gather_single
    gather = _collective("gather")
    scatter = _collective("scatter")
    alltoall = _collective("alltoall")
    all_to_all_single = _collective("alltoall_base")
    alltoall_base = all_to_all_single
    barrier = _collective("barrier")

    def reduce_scatter_single(
        self,
        output: torch.Tensor,
        tensor: torch.Tensor,
        opts: ReduceScatterOptions | None = None,
    ) -> InterruptibleWork:
        """Reduce, and keep this rank's equal part."""
        if tensor.numel() != output.numel() * self.size():
            raise ValueError(
                f"reduce_scatter of {tensor.numel()} elements into {output.numel()}"
                f" on {self.size()} ranks"
            )
        return self._reduce_scatter(output, tensor, output.numel() * self.rank(), opts)

    _reduce_scatter_base: Any = reduce_scatter_single

    def reduce_scatter(  # type: ignore[override]  # torch itself calls this form only
        self,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[Sequence[torch.Tensor]],
        opts: ReduceScatterOptions | None = None,
    ) -> dist.Work:
        """Reduce, and keep this rank's part; the parts may differ in size."""
        (output,), (parts,) = outputs, inputs
        flat = torch.cat([part.reshape(-1) for part in parts])
        start = sum(part.numel() for part in parts[: self.rank()])
        return self._reduce_scatter(output, flat, start, opts)

    # The functional collectives, which DTensor uses, are all "coalesced". In C++ they would also
    # take gloo's mutex while holding the GIL, which gloo's own threads do the other way round.
    def all_gather_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Gather several tensors, each as ``all_gather_single`` does."""
        given = () if opts is None else (opts,)
        pairs = zip(outputs, inputs, strict=True)
        return InterruptibleWorks([self._issue("_allgather_base", *p, *given) for p in pairs])

    def reduce_scatter_single_coalesced(
        self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], opts: Any = None
    ) -> dist.Work:
        """Reduce and scatter several tensors, each as ``reduce_scatter_single`` does."""
        pairs = zip(outputs, inputs, strict=True)
        return InterruptibleWorks([self.reduce_scatter_single(*p, opts) for p in pairs])

    allgather_into_tensor_coalesced: Any = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced: Any = reduce_scatter_single_coalesced

    send = _refused("send", _POINT_TO_POINT)
    recv = _refused("recv", _POINT_TO_POINT)
    recv_anysource = _refused("recv_anysource", _POINT_TO_POINT)
    monitored_barrier = _refused("monitored_barrier", _BLOCKS)
    _start_coalescing = _refused("_start_coalescing", _COALESCES)
    _end_coalescing = _refused("_end_coalescing", _COALESCES)
    split_group = _refused("split_group", _DERIVES)
    merge_remote_group = _refused("merge_remote_group", _DERIVES)
    abort = _refused("abort", "end the generation instead: Ending.end")
    _register_on_completion_hook = _refused("_register_on_completion_hook", _HOOKS)
    _enable_collectives_timing = _refused("_enable_collectives_timing", _HOOKS)
    _wait_for_pending_works = _refused("_wait_for_pending_works", _HOOKS)

    def _issue(
        self,
        name: str,
        *args: Any,
        finish: Callable[[], list[torch.Tensor]] | None = None,
        **kwargs: Any,
    ) -> InterruptibleWork:
        self._ending.check()
        work = getattr(self._gloo, name)(*args, **kwargs)
        self._ending.track(work)
        return InterruptibleWork(name, work, self._ending, limit=self._timeout, finish=finish)

    def _reduce_scatter(
        self,
        output: torch.Tensor,
        whole: torch.Tensor,
        start: int,
        opts: ReduceScatterOptions | None,
    ) -> InterruptibleWork:
        """What gloo does as well, an all-reduce and a cut; the sums are the same to the bit.

        gloo's own work for it cannot be used: its wait has no limit, it has no future, and it is
        never complete.
        """
        reduced, how = whole.detach().clone().reshape(-1), AllreduceOptions()
        if opts is not None:
            how.reduceOp, how.timeout = opts.reduceOp, opts.timeout

        def cut() -> list[torch.Tensor]:
            with torch.no_grad():
                return [output.copy_(reduced[start : start + output.numel()].view_as(output))]

        return self._issue("allreduce", [reduced], how, finish=cut)


def _decoy(rank: int, size: int) -> FakeProcessGroup:
    """A backend that a group needs in order to have a name, and that fails on every collective."""
    fake: Any = FakeProcessGroup  # torch's types do not tell its options
    options = fake.Options()
    options.error_on_collective = True
    decoy: FakeProcessGroup = fake._create_internal(rank, size, options)
    return decoy
