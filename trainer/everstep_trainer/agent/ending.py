"""How an agent ends: it says so, lets its workers go, kills who stays, and exits (EC-20)."""

from dataclasses import replace
from typing import Final

from everstep_contract.facts.member import MemberLeft
from everstep_runtime.clock import Moment

from everstep_trainer.agent.effects import Effect, Exit, KillWorker, Publish, TerminateWorker, Turn
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
    """Say that this member goes, and give its workers the grace to end by themselves.

    A second request, a failure and the self-fence leave no grace.
    """
    if state.ending:
        hurried = replace(state.ending, deadline=moment.monotonic)
        return replace(state, ending=hurried), ()
    grace = 0.0 if reason in ("failed", "fenced") else state.me.limits.grace_seconds
    ending = Ending(reason, EXIT_STATUS[reason], detail, moment.monotonic + grace)
    state = replace(state, ending=ending)
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
    return state, (Publish(left), *asked)


def finish_ending(state: AgentState, moment: Moment) -> Turn:
    """Exit once no worker is left; past the deadline, see to that."""
    if state.ending is None:
        return state, ()
    if not any(worker.alive for worker in state.workers):
        return replace(state, exited=True), (Exit(state.ending.code, state.ending.detail),)
    if moment.monotonic < state.ending.deadline:
        return state, ()
    return kill(state, state.ending.detail)


def kill(state: AgentState, reason: str, *, only: tuple[int, ...] | None = None) -> Turn:
    """Kill these workers, or all; each is killed once and remembers why."""
    kills: list[Effect] = []
    for worker in state.workers:
        wanted = only is None or worker.local_rank in only
        if wanted and worker.alive and not worker.kill_reason:
            state = state.with_worker(replace(worker, kill_reason=reason))
            kills.append(KillWorker(worker.local_rank, worker.life, reason))
    return state, tuple(kills)
