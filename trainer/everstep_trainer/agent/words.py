"""What workers say, on their links and on their pages, and what the agent makes of it."""

from dataclasses import replace
from typing import assert_never

from everstep_contract.facts.checkpoint import CheckpointDamaged
from everstep_contract.facts.worker import CollectiveFailed
from everstep_runtime.clock import Moment

from everstep_trainer.agent import saving
from everstep_trainer.agent.effects import Effect, Gossip, Publish, Turn, Warn
from everstep_trainer.agent.ending import begin_ending
from everstep_trainer.agent.inputs import Tick, WorkerSaid, WorkerStarted
from everstep_trainer.agent.meaning import fingers
from everstep_trainer.agent.model import AgentState, Restored, Worker, WorkerStage
from everstep_trainer.link import (
    CheckpointDue,
    Failed,
    Finished,
    FirstStep,
    Formed,
    FoundDamage,
    Hello,
    Left,
    Parked,
)
from everstep_trainer.page import PageView


def hear_start(state: AgentState, heard: WorkerStarted, moment: Moment) -> Turn:
    """A worker has a process. On the restart rung it is one of a generation from its birth."""
    worker = state.workers[heard.local_rank]
    if worker.life != heard.life or not worker.alive:
        return state, ()
    worker = replace(worker, pid=heard.pid)
    if state.me.rung == "restart" and worker.stage == "starting":
        return _at(state, worker, "left", moment), ()
    return state.with_worker(worker), ()


def hear_worker(state: AgentState, heard: WorkerSaid, moment: Moment) -> Turn:
    """One message of a living worker; a dead one's last words change nothing."""
    worker = state.workers[heard.local_rank]
    if worker.life != heard.life or not worker.alive:
        return state, ()
    message = heard.message
    match message:
        case Hello():
            return state.with_worker(replace(worker, joined=True)), ()
        case Parked():
            return _at(state, _out_of_group(worker, message), "parked", moment), ()
        case Left():
            return _at(state, _out_of_group(worker, message), "left", moment), ()
        case Formed():
            return _hear_formed(state, worker, message, moment), ()
        case FirstStep(generation=generation, step=step, step_seconds=seconds):
            worker = replace(worker, step=step, step_seconds=seconds, version=step)
            state = replace(state, alive_at=moment.monotonic, restarts=0)
            return _in_generation(state, worker, generation, "stepping", moment), ()
        case CheckpointDue() | FoundDamage():
            return _hear_of_checkpoint(state, worker, message, moment)
        case Failed():
            return _hear_failure(state, worker, message, moment)
        case Finished(step=step):
            return _at(state, replace(worker, step=step), "finished", moment), ()
        case _:
            assert_never(message)


def _out_of_group(worker: Worker, message: Parked | Left) -> Worker:
    """What it holds is told with it: its page was read up to a tick ago."""
    return replace(
        worker,
        generation=message.generation,
        version=message.version,
        step=max(worker.step, message.version),
        early_deaths=0,
    )


def _at(state: AgentState, worker: Worker, stage: WorkerStage, moment: Moment) -> AgentState:
    return state.with_worker(replace(worker, stage=stage, stage_at=moment.monotonic))


def _in_generation(
    state: AgentState, worker: Worker, generation: int, stage: WorkerStage, moment: Moment
) -> AgentState:
    """The new stage, if the worker speaks of the generation it is in; else it is old news."""
    return _at(state, worker, stage, moment) if generation == worker.generation else state


def _hear_formed(state: AgentState, worker: Worker, message: Formed, moment: Moment) -> AgentState:
    if message.verdict_id != state.verdict_id:
        return state
    worker = replace(worker, step=message.agreed_step, version=message.agreed_step)
    state = replace(
        state,
        agreed_step=message.agreed_step,
        steps_lost=max(state.steps_lost, message.steps_lost),
        restored=_slower(state.restored, message),
    )
    return _in_generation(state, worker, message.generation, "formed", moment)


def _slower(known: Restored, message: Formed) -> Restored:
    """All workers agreed on one source; the member has formed with the last of them."""
    chosen = [at for at in (known.chosen_at, message.chosen_at) if at is not None]
    loaded = [at for at in (known.loaded_at, message.loaded_at) if at is not None]
    return Restored(
        source=message.source,
        checkpoint=message.checkpoint,
        chosen_at=max(chosen, default=None),
        loaded_at=max(loaded, default=None),
    )


def _hear_of_checkpoint(
    state: AgentState, worker: Worker, message: CheckpointDue | FoundDamage, moment: Moment
) -> Turn:
    if isinstance(message, CheckpointDue):
        return saving.hear_due(state, worker.local_rank, message)
    damaged = CheckpointDamaged(
        at=moment.at,
        job=state.me.job,
        member=state.me.member,
        checkpoint=message.checkpoint,
        detail=message.detail,
    )
    return state, (Publish(damaged),)


def _hear_failure(state: AgentState, worker: Worker, message: Failed, moment: Moment) -> Turn:
    """A failure counts only before its generation's successor is heard (R13)."""
    order = state.order
    if order is None or message.verdict_id != order.verdict_id:
        return state, ()
    state = _in_generation(state, worker, message.generation, "broken", moment)
    ranks = [seat.member.incarnation for seat in order.seats for _ in range(seat.nproc)]
    named = next((ranks[rank] for rank in message.peer_ranks if rank < len(ranks)), None)
    failed = CollectiveFailed(
        at=moment.at,
        job=state.me.job,
        member=state.me.member,
        local_rank=worker.local_rank,
        generation=message.generation,
        verdict_id=message.verdict_id,
        peer=named,
        detail=message.detail,
    )
    return state, (Publish(failed),)


def hear_tick(state: AgentState, tick: Tick, moment: Moment) -> Turn:
    """Look at the pages and at the bus; fence ourselves when both have been dead too long (R24)."""
    before = state.workers
    for worker, page in zip(before, tick.pages, strict=True):
        if page and worker.alive:
            state = state.with_worker(_seen(worker, page))
    stepped = any(
        new.stage == "stepping" and new.step > old.step
        for old, new in zip(before, state.workers, strict=True)
    )
    silent_seconds = moment.monotonic - state.alive_at
    if not stepped and not state.ending and _outlasts(state, silent_seconds):
        detail = f"neither the bus nor a completed step for {silent_seconds:.1f} s"
        return begin_ending(state, "fenced", detail, moment)
    if stepped:
        state = replace(state, restarts=0)
    alive_at = moment.monotonic if stepped or tick.bus_up else state.alive_at
    state = replace(state, bus_up=tick.bus_up, alive_at=alive_at)
    state, effects = _ask_peers(_settled(state, moment), moment)
    state, warnings = _miss_joining(state, moment)
    return state, effects + warnings


def _outlasts(state: AgentState, silent_seconds: float) -> bool:
    order = state.order
    return order is not None and silent_seconds > order.durations.self_fence_seconds


def _seen(worker: Worker, page: PageView) -> Worker:
    return replace(
        worker,
        page=page,
        version=page.version,
        step=page.step,
        step_seconds=page.step_seconds[-1] if page.step_seconds else worker.step_seconds,
    )


def _settled(state: AgentState, moment: Moment) -> AgentState:
    """On the restart rung nothing tells that a group was made but that its workers live on."""
    if state.me.rung == "in_process":
        return state
    for worker in state.workers:
        due = worker.stage_at + state.me.limits.settle_seconds
        if worker.stage == "left" and moment.monotonic >= due:
            state = _at(state, worker, "stepping", moment)
    return state


def _miss_joining(state: AgentState, moment: Moment) -> Turn:
    """A script that never joins would otherwise wait for a place for ever, without a word."""
    missing: list[Effect] = []
    for worker in state.workers if state.me.rung == "in_process" else ():
        due = worker.stage_at + state.me.limits.join_seconds
        if worker.stage == "starting" and not worker.joined and moment.monotonic >= due:
            state = state.with_worker(replace(worker, joined=True))
            detail = (
                f"worker {worker.local_rank} has not called everstep.join() for "
                f"{state.me.limits.join_seconds:g} s; a script that never does needs --rung restart"
            )
            missing.append(Warn("script_has_not_joined", detail))
    return state, tuple(missing)


def _ask_peers(state: AgentState, moment: Moment) -> Turn:
    """Without the bus, peers are asked for newer orders; they answer with theirs (R9)."""
    order = state.order
    due = moment.monotonic >= state.gossiped_at + state.me.limits.gossip_seconds
    if state.bus_up or order is None or not due:
        return state, ()
    state = replace(state, gossiped_at=moment.monotonic)
    return state, (Gossip(order, fingers(state.me, order)),)
