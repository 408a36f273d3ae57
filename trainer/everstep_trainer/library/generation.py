"""One membership, from the script's side: a block that ends when the membership does."""

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from types import TracebackType
from typing import Final

import torch.distributed as dist
from everstep_checkpoint.errors import NoRoomError
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from everstep_trainer.backend import Ending, GenerationEnded
from everstep_trainer.library.errors import LoopError
from everstep_trainer.library.loaders import Loader
from everstep_trainer.library.outcome import Done, Outcome, judge
from everstep_trainer.library.reading import Watch
from everstep_trainer.library.recovery import Lineage, Recovery
from everstep_trainer.library.state import Meeting
from everstep_trainer.library.steps import Step
from everstep_trainer.library.transfer import Place
from everstep_trainer.library.worker import Worker
from everstep_trainer.library.wrapping import no_first_broadcast
from everstep_trainer.link import Assignment, CheckpointDue, FirstStep, Formed, FoundDamage
from everstep_trainer.page import NOBODY, PHASES

log = logging.getLogger("everstep")

LAST_SAVE_POLL_SECONDS: Final = 0.05
LAST_SAVE_POLLS: Final = 1200
LEFT_SAVE_POLLS: Final = 200
"""The 10 s that an agent gives its workers to end in, unless it is told otherwise."""
"""A minute: how long the end of training waits for a slot that an earlier save still reads."""


class Generation:
    """A membership that this worker belongs to; made by `Job.generations`, used in a ``with``.

    Attributes:
        number: Of the generation; only grows.
        rank: This worker's, below ``world_size``.
        members: Incarnation of each rank's member.
        device: Where the group's tensors live: this worker's GPU, or the CPU.
        outcome: How the ``with`` block ended; None while it runs, or if the script's own error
            went through it.
    """

    def __init__(self, order: Assignment, ending: Ending, worker: Worker) -> None:
        self.number = order.generation
        self.rank = order.rank
        self.world_size = order.world_size
        self.local_rank = order.local_rank
        self.local_world_size = order.local_world_size
        self.members = order.members
        self.device = worker.collectives.device
        self.outcome: Outcome | None = None
        self._order = order
        self._place = Place(
            self.rank, self.world_size, self.local_rank, self.device, len(set(self.members))
        )
        saving = worker.state.saving
        self._lineage = Lineage(
            order.job, order.job_uid, order.history, saving.root, saving.resume_from
        )
        self._ending = ending
        self._worker = worker
        self._until_agreed = contextlib.ExitStack()
        self._modules: tuple[nn.Module, ...] = ()
        self._wrapped: list[nn.Module] = []
        self._has_agreed = self._has_stepped = False
        self._step: Step | None = None

    def __repr__(self) -> str:
        place = f"rank={self.rank}, world_size={self.world_size}"
        return f"Generation(number={self.number}, {place}, step={self.step})"

    @cached_property
    def mesh(self) -> DeviceMesh:
        """All ranks in one dimension, "replicate": for ``DDP(model, device_mesh=...)``."""
        return init_device_mesh(self.device.type, (self.world_size,), mesh_dim_names=("replicate",))

    @property
    def step(self) -> int:
        """Completed optimizer steps in the state."""
        return self._worker.state.step

    def __enter__(self) -> "Generation":
        self._wrapped = self._until_agreed.enter_context(no_first_broadcast())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        self._until_agreed.close()
        try:
            error = error or self._meet()
            self.outcome = Done() if error is None else judge(error, self._ending)
        finally:
            self._worker.state.leave(self.number)
            self.__dict__.pop("mesh", None)  # it keeps the groups, and through them threads
            self._modules, self._wrapped, self._step = (), [], None
        return self.outcome is not None

    def save_what_is_left(self, is_over: Callable[[], bool]) -> None:
        """No other generation follows for now, and this process may end meanwhile (EC-45).

        Args:
            is_over: Whether there is something better to do than to wait for a slot that is being
                written out.
        """
        state = self._worker.state
        try:
            for _ in range(LEFT_SAVE_POLLS):
                if is_over() or not self._has_agreed or not state.has_left:
                    return
                if state.take_left(self.number, self._place):
                    self._make_durable()
                    return
                time.sleep(LAST_SAVE_POLL_SECONDS)
        except NoRoomError as error:
            log.warning("step %d is not saved: %s", self.step, error)
            return
        log.warning("step %d is not saved: earlier saves take too long", self.step)

    def track(self, *, frozen: nn.Module | Iterable[nn.Module] = (), **objects: object) -> None:
        """Say what the state is made of, and bring it to the newest that a living worker holds.

        Call it once a generation, on every rank, with everything that a step changes: models,
        optimizers, schedulers, gradient scalers, or anything with ``state_dict`` and
        ``load_state_dict`` of plain data. They may be the objects of the last generation or new
        ones in the same shape. Models are tracked without their wrapper. After it, parameters,
        optimizers, schedulers, random state and step are the same as on the worker that had the
        newest; in the job's first generation models are rank 0's.

        Args:
            frozen: Models that are only read: neither kept nor copied, so a newcomer loads them.
            objects: By the same names on every rank and in every generation.

        Raises:
            GenerationEnded: An order came meanwhile.
            StateError: The objects cannot be copied, or not to each other.
        """
        if self._has_agreed:
            raise LoopError("track is called once a generation, before steps, with everything")
        frozen = (frozen,) if isinstance(frozen, nn.Module) else tuple(frozen)
        both = [name for name, thing in objects.items() if any(thing is model for model in frozen)]
        if both:
            raise LoopError(f"{', '.join(both)} cannot be both tracked and frozen")
        self._modules = tuple(m for m in objects.values() if isinstance(m, nn.Module))
        self._worker.state.adopt(objects)
        self._agree(frozen)

    def steps(self, loader: Loader = None, *, total: int) -> Iterator[Step]:
        """The steps that are still to be done, one a turn, until ``total`` are completed.

        Args:
            loader: Where each step's micro-batches come from; see `loaders`.
            total: Optimizer steps of the whole job.

        Raises:
            GenerationEnded: An order came; between steps too.
        """
        if not self._has_agreed:
            self._agree()
        source = self._worker.source_of(loader)
        while self.step < total:
            self._check()
            if self._worker.state.begin_turn(self.number, self._place):
                self._make_durable()
            self._worker.page.write("step_begun", self.step + 1)
            self._enter_phase("step")
            batches = source.batches(self.step, self.rank, self.world_size)
            self._step = Step(self.step, batches, self._modules, self._completed, self._check)
            yield self._step
            self._step.completed()
        self._save_the_end()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Say that the loop does something else for a while, so that nobody takes it for a hang.

        Args:
            name: "evaluate", "checkpoint", or a word of the script's own.
        """
        self._enter_phase(name if name in PHASES else "user")
        try:
            yield
        finally:
            self._enter_phase("step")

    def _agree(self, frozen: tuple[nn.Module, ...] = ()) -> None:
        self._require_tracked(frozen)
        worker, lineage = self._worker, self._lineage
        watch = Watch(guard=lambda _: self._ending.check())
        memory = worker.state.saving.snapshots
        recovery = Recovery(self._place, lineage, memory, watch, self._tell_damage)
        meeting = worker.state.agree(self._place, lineage, recovery)
        self._ending.check()
        self._has_agreed = True
        worker.state.watch(self._guard)
        self._until_agreed.close()
        worker.page.write("generation", self.number)
        worker.page.write("step", self.step)
        worker.tell(self._formed(meeting))
        self._note("formed")

    def _formed(self, meeting: Meeting) -> Formed:
        agreed, found = meeting.agreed, meeting.found
        return Formed(
            generation=self.number,
            verdict_id=self._order.verdict_id,
            agreed_step=agreed.version.step,
            steps_lost=meeting.steps_lost,
            source=agreed.source,
            checkpoint=agreed.checkpoint,
            chosen_at=found.chosen_at if found else None,
            loaded_at=found.loaded_at if found else None,
        )

    def _tell_damage(self, checkpoint: str, detail: str) -> None:
        self._worker.tell(FoundDamage(checkpoint=checkpoint, detail=detail))

    def _save_the_end(self) -> None:
        state = self._worker.state
        for _ in range(LAST_SAVE_POLLS):
            if not state.lacks_a_checkpoint:
                return
            if state.take_last(self.number, self._place):
                self._make_durable()
            else:
                self._check()
                time.sleep(LAST_SAVE_POLL_SECONDS)
        log.warning("step %d, the last, is not saved: earlier saves take too long", self.step)

    def _make_durable(self) -> None:
        """Have the agent write the snapshot that was just taken."""
        due = CheckpointDue(generation=self.number, step=self.step, writes_state=self.rank == 0)
        self._worker.tell(due)

    def _require_tracked(self, frozen: tuple[nn.Module, ...]) -> None:
        """Whatever DDP was kept from making equal has to be agreed on instead."""
        known = self._worker.state.parameters()
        known |= {id(parameter) for model in frozen for parameter in model.parameters()}
        for module in self._wrapped:
            if any(id(parameter) not in known for parameter in module.parameters()):
                raise LoopError(
                    f"a {type(module).__name__} is wrapped in DDP but not tracked: its ranks "
                    "would differ; pass it to `generation.track`"
                )

    def _check(self) -> None:
        """Go on only in a whole group, even if the script has caught what said otherwise."""
        self._ending.check()
        if self._ending.failure is not None:
            raise self._ending.failure

    def _guard(self) -> None:
        """Called just before an optimizer steps: nothing else can stop it from here."""
        self._worker.collectives.finish()  # an aborted NCCL kernel returns a wrong result
        self._worker.wait_for_agent(lambda vouched: vouched == self.number, self._ending)
        self._check()
        if self._step is None or not self._step.is_ready:
            raise LoopError(
                "an optimizer stepped outside a step of `generation.steps`, or before the last of "
                "its micro-batches was taken from `step.micro_batches`"
            )

    def _completed(self, seconds: float) -> None:
        worker = self._worker
        if worker.wait_for_agent(lambda vouched: vouched != NOBODY, self._ending):
            self._ending.check()  # what the script does after a step is for who still belongs
        worker.state.complete_turn(self.number, seconds)
        worker.page.write("step", self.step)
        worker.page.add_step_seconds(seconds)
        self._note("step", loss=self._loss())
        if not self._has_stepped:
            self._has_stepped = True
            worker.tell(
                FirstStep(
                    generation=self.number,
                    verdict_id=self._order.verdict_id,
                    step=self.step,
                    step_seconds=seconds,
                )
            )

    def _note(self, event: str, **more: float | None) -> None:
        """Write it down, where the workers' own evidence is wanted."""
        if self._worker.step_log is not None:
            self._worker.step_log.write(
                event,
                step=self.step,
                generation=self.number,
                member=self.members[self.rank],
                rank=self.rank,
                world_size=self.world_size,
                **more,
            )

    def _loss(self) -> float | None:
        """What the script said of the running step's loss; asks a GPU only for a step log."""
        loss = self._step.loss if self._step and self._worker.step_log else None
        return None if loss is None else float(loss)

    def _enter_phase(self, phase: str) -> None:
        self._worker.page.enter_phase(phase, time.monotonic_ns())

    def _meet(self) -> BaseException | None:
        """Leave the last step only when all have come to its end."""
        try:
            dist.barrier()
        except (GenerationEnded, RuntimeError) as error:
            return error
        return None
