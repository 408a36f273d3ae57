"""Deaths and births: workers that ended, and when they and the store host start anew."""

from dataclasses import replace

from everstep_contract.facts.worker import WorkerExited
from everstep_runtime.clock import Moment

from everstep_trainer.agent.effects import Effect, Publish, StartStore, StartWorker, Turn
from everstep_trainer.agent.ending import begin_ending
from everstep_trainer.agent.inputs import WorkerDied
from everstep_trainer.agent.meaning import assignment, wish
from everstep_trainer.agent.model import AgentState, ExitStatus, Worker
from everstep_trainer.link import Assignment


def hear_death(state: AgentState, heard: WorkerDied, moment: Moment) -> Turn:
    """A worker's process ended: conclusive (R11). A good end is its last; else it starts anew."""
    worker = state.workers[heard.local_rank]
    if worker.life != heard.life or not worker.alive:
        return state, ()
    effects: tuple[Effect, ...] = ()
    if worker.pid:
        effects = (Publish(_exited(state, worker, heard.status, moment)),)
    if heard.status.classified == "finished" and not worker.kill_reason:
        state, more = _finished(state.with_worker(replace(worker, stage="done")), moment)
        return state, effects + more
    state, more = _lost(state, worker, heard.status, moment)
    return state, effects + more


def _exited(state: AgentState, worker: Worker, status: ExitStatus, moment: Moment) -> WorkerExited:
    return WorkerExited(
        at=moment.at,
        job=state.me.job,
        member=state.me.member,
        local_rank=worker.local_rank,
        pid=worker.pid,
        generation=worker.generation,
        exit_code=status.code,
        signal=status.signal,
        classified=status.classified,
        detail=worker.kill_reason,
    )


def _finished(state: AgentState, moment: Moment) -> Turn:
    if state.ending or any(worker.stage != "done" for worker in state.workers):
        return state, ()
    return begin_ending(state, "finished", "every worker has finished", moment)


def _lost(state: AgentState, worker: Worker, status: ExitStatus, moment: Moment) -> Turn:
    asked_for = bool(worker.kill_reason)
    state = state.with_worker(_reborn(state, worker, moment))
    if state.ending or asked_for:
        return state, ()
    state = replace(state, restarts=state.restarts + 1)
    why = f"worker {worker.local_rank} ended with {_said(status)}"
    if any(other.stage in ("finished", "done") for other in state.workers):
        return begin_ending(state, "failed", f"{why} after another had finished", moment)
    if state.restarts > state.me.limits.max_restarts:
        spent = f"{state.me.limits.max_restarts} restarts without a step in between are spent"
        return begin_ending(state, "failed", f"{why}; {spent}", moment)
    return state, ()


def _reborn(state: AgentState, worker: Worker, moment: Moment) -> Worker:
    """The worker's next life. One that dies before it parks is started ever more slowly; one
    that died in the current group leaves a store prefix and sockets that no other life can use."""
    limits = state.me.limits
    early = worker.early_deaths + 1 if worker.stage == "starting" and not worker.kill_reason else 0
    pause = limits.restart_backoff_seconds * 2 ** min(early - 1, 16) if early else 0.0
    died_in_group = worker.assigned and worker.generation == state.generation
    return Worker(
        worker.local_rank,
        life=worker.life,
        start_at=moment.monotonic + min(pause, limits.restart_backoff_limit_seconds),
        early_deaths=early,
        barred=state.verdict_id if died_in_group else worker.barred,
    )


def _said(status: ExitStatus) -> str:
    if status.signal is not None:
        return f"signal {status.signal}"
    return f"status {status.code}" if status.code is not None else "no status known"


def start_workers(state: AgentState, moment: Moment) -> Turn:
    """Start who is absent and due; on the restart rung only into a generation, all at once."""
    if state.ending or (state.me.rung == "restart" and not _all_may_start(state)):
        return state, ()
    starts: list[Effect] = []
    for worker in state.workers:
        if worker.stage != "absent" or moment.monotonic < worker.start_at:
            continue
        place = _place(state, worker)
        generation = place.generation if place else 0
        born = replace(
            worker,
            life=worker.life + 1,
            stage="starting",
            stage_at=moment.monotonic,
            generation=generation,
            assigned=generation,
        )
        state = state.with_worker(born)
        starts.append(StartWorker(born.local_rank, born.life, place))
    return state, tuple(starts)


def _all_may_start(state: AgentState) -> bool:
    return wish(state) == "form" and all(
        worker.stage == "absent" and worker.barred != state.verdict_id for worker in state.workers
    )


def _place(state: AgentState, worker: Worker) -> Assignment | None:
    """A worker of the restart rung is born into its generation."""
    if state.me.rung == "in_process" or state.order is None:
        return None
    return assignment(state.order, state.me, worker.local_rank)


def start_store(state: AgentState, moment: Moment) -> Turn:
    """One store host at a time; it too may die only so often."""
    if state.store.started or state.ending:
        return state, ()
    if state.store.deaths > state.me.limits.max_restarts:
        detail = f"the store host died {state.store.deaths} times"
        return begin_ending(state, "failed", detail, moment)
    return replace(state, store=replace(state.store, started=True)), (StartStore(),)
