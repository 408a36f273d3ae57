"""How an agent ends: it says so, saves, lets its workers go, kills who stays, exits (EC-20)."""

from dataclasses import replace
from typing import Final, assert_never

from everstep_contract.facts.member import MemberLeft
from everstep_runtime.clock import Moment

from everstep_trainer.agent import saving
from everstep_trainer.agent.effects import (
    Effect,
    Exit,
    KillWorker,
    Publish,
    StopFlusher,
    TerminateWorker,
    Turn,
)
from everstep_trainer.agent.model import AgentState, Ending, EndReason

EXIT_STATUS: Final[dict[EndReason, int]] = {
    "finished": 0,
    "stopped": 1,
    "failed": 1,
    "fenced": 75,
    "terminated": 143,
}
"""75 is sysexits' EX_TEMPFAIL: try again later; 143 is what a shell says of SIGTERM. Not 0: a pod
that was told to go and succeeded would look to Volcano like a finished task."""


def begin_ending(state: AgentState, reason: EndReason, detail: str, moment: Moment) -> Turn:
    """Say that this member goes, save what is newest, and give its workers the grace to end.

    A second signal, a failure and the self-fence leave workers no grace.
    """
    if state.ending:
        return replace(state, ending=_hurried(state, state.ending, reason, moment)), ()
    by = _deadlines(state, reason, moment)
    state = replace(state, ending=Ending(reason, EXIT_STATUS[reason], detail, *by))
    left = MemberLeft(
        at=moment.at,
        job=state.me.job,
        member=state.me.member,
        reason="terminated" if reason == "stopped" else reason,
        detail=detail,
    )
    asked = tuple(
        TerminateWorker(worker.local_rank, worker.life)
        for worker in state.workers
        if worker.alive and state.me.rung == "restart"
    )
    state, saved = _save(state, detail, moment)
    return state, (Publish(left), *asked, *saved)


def _deadlines(state: AgentState, reason: EndReason, moment: Moment) -> tuple[float, float]:
    """When workers must have ended, and when what is being saved must be durable."""
    now, limits = moment.monotonic, state.me.limits
    match reason:
        case "fenced":
            return now, now
        case "failed":
            return now, now + limits.grace_seconds
        case "finished":
            return now + limits.grace_seconds, now + limits.save_seconds
        case "terminated" | "stopped":
            return now + limits.grace_seconds, now + limits.grace_seconds
        case _:
            assert_never(reason)


def _hurried(state: AgentState, ending: Ending, reason: EndReason, moment: Moment) -> Ending:
    """The first signal after an end that nobody asked for is no second one: its grace counts."""
    is_first_signal = reason == "terminated" and ending.reason != "terminated"
    by = moment.monotonic + (state.me.limits.grace_seconds if is_first_signal else 0.0)
    saved_by = ending.saved_by if reason == "failed" else min(ending.saved_by, by)
    return replace(ending, deadline=min(ending.deadline, by), saved_by=saved_by)


def _save(state: AgentState, detail: str, moment: Moment) -> Turn:
    """What is newest; but whoever is fenced writes nothing more (R24)."""
    if not state.me.has_storage:
        return state, ()
    if state.ending and state.ending.reason == "fenced":
        state, told = saving.abandon(state, detail, moment)
        return state, (StopFlusher(), *told)
    return saving.break_off_at_the_end(state)


def finish_ending(state: AgentState, moment: Moment) -> Turn:
    """Exit once no worker is left and nothing is being saved; past the deadlines, see to that."""
    if state.ending is None:
        return state, ()
    if any(worker.alive for worker in state.workers):
        if moment.monotonic < state.ending.deadline:
            return state, ()
        return kill(state, state.ending.detail)
    if state.saves.unfinished and moment.monotonic < state.ending.saved_by:
        return state, ()
    leave = Exit(state.ending.code, state.ending.detail)
    state, told = saving.abandon(state, state.ending.detail, moment)
    return replace(state, exited=True), (*told, leave)


def kill(state: AgentState, reason: str, *, only: tuple[int, ...] | None = None) -> Turn:
    """Kill these workers, or all; each is killed once and remembers why."""
    kills: list[Effect] = []
    for worker in state.workers:
        wanted = only is None or worker.local_rank in only
        if wanted and worker.alive and not worker.kill_reason:
            state = state.with_worker(replace(worker, kill_reason=reason))
            kills.append(KillWorker(worker.local_rank, worker.life, reason))
    return state, tuple(kills)
