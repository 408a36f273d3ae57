"""What an agent says of itself: the member's phase, what it has left, its whole state."""

from dataclasses import replace

from everstep_contract.identity import Endpoint
from everstep_contract.telemetry import MemberPhase, MemberReport, WorkerReport
from everstep_runtime.clock import Moment

from everstep_trainer.agent.meaning import wish
from everstep_trainer.agent.model import AgentState, Worker


def phase(state: AgentState) -> MemberPhase:
    """Where the member stands with the newest order: its slowest worker's stage."""
    match wish(state):
        case "finish":
            return "stopped"
        case "park":
            return _parking_phase(state)
        case "form":
            return _forming_phase(state)


def _forming_phase(state: AgentState) -> MemberPhase:
    stages = {
        worker.stage if worker.generation == state.generation else "" for worker in state.workers
    }
    if stages <= {"stepping", "finished"}:
        return "stepping"
    if stages <= {"formed", "stepping", "finished"}:
        return "formed"
    if stages <= {"left", "formed", "stepping", "finished"}:
        return "joined"
    return "starting" if _any_starting(state) else "leaving"


def _parking_phase(state: AgentState) -> MemberPhase:
    if not all(is_parked(state, worker) for worker in state.workers):
        return "starting" if _any_starting(state) else "leaving"
    if state.store.endpoint is None:
        return "starting"
    if state.order and state.order.seat_of(state.me.incarnation):
        return "holding"
    peers_known = state.order is not None and state.order.seats != ()
    return "starting" if peers_known and state.reached != state.verdict_id else "ready"


def _any_starting(state: AgentState) -> bool:
    return any(worker.stage in ("absent", "starting") for worker in state.workers)


def is_parked(state: AgentState, worker: Worker) -> bool:
    """In no group, warm, and told so of the newest order. Who has no process is parked too where
    orders start processes."""
    if state.me.rung == "restart":
        return worker.stage == "absent"
    return worker.stage == "parked" and worker.generation == state.generation


def has_left(state: AgentState, worker: Worker) -> bool:
    """Whether a worker can do nothing any more in a generation older than the newest order's."""
    if not worker.alive or worker.stage == "finished" or worker.generation == state.generation:
        return True
    in_no_group = worker.stage == "parked" or worker.assigned == 0
    return in_no_group and worker.generation >= worker.assigned


def with_left(state: AgentState) -> AgentState:
    """Note the newest generation that no worker of this member can step in any more (R21)."""
    if not all(has_left(state, worker) for worker in state.workers):
        return state
    return replace(state, left_generation=max(state.left_generation, state.generation - 1))


def report(state: AgentState, store: Endpoint, moment: Moment) -> tuple[AgentState, MemberReport]:
    """The member's report, with the next sequence number."""
    state = replace(state, sequence=state.sequence + 1)
    durations = sorted(_step_seconds(state))
    return state, MemberReport(
        at=moment.at,
        job=state.me.job,
        member=state.me.member,
        gang=state.me.gang,
        peer=state.me.peer,
        store=store,
        boot_id=state.me.boot_id,
        sequence=state.sequence,
        phase=phase(state),
        generation=state.generation,
        verdict_id=state.verdict_id,
        left_generation=state.left_generation,
        saved_generation=state.me.saved_generation,
        step=min(worker.step for worker in state.workers),
        step_begun=max(_step_begun(worker) for worker in state.workers),
        replicated_step=state.giving.replicated_step(state.generation),
        step_seconds_p50=_quantile(durations, 0.5),
        step_seconds_p99=_quantile(durations, 0.99),
        workers=tuple(_worker_report(worker) for worker in state.workers),
    )


def report_key(state: AgentState) -> tuple[object, ...]:
    """What a change of is told at once."""
    return (
        phase(state),
        state.verdict_id,
        state.left_generation,
        state.store.endpoint,
        tuple(worker.pid for worker in state.workers if worker.alive),
    )


def _worker_report(worker: Worker) -> WorkerReport:
    return WorkerReport(
        local_rank=worker.local_rank,
        pid=worker.pid if worker.alive else 0,
        version=worker.version if worker.alive else -1,
        step_begun=_step_begun(worker),
        phase=worker.page.phase if worker.page else worker.stage,
    )


def _step_begun(worker: Worker) -> int:
    return worker.page.step_begun if worker.page else 0


def _step_seconds(state: AgentState) -> tuple[float, ...]:
    """Durations of the slowest worker's newest steps; workers of one job step together."""
    pages = [worker.page for worker in state.workers if worker.page]
    return max((page.step_seconds for page in pages), key=sum, default=())


def median_step_seconds(state: AgentState) -> float | None:
    """Of the newest steps; None before the first."""
    return _quantile(sorted(_step_seconds(state)), 0.5)


def _quantile(ordered: list[float], share: float) -> float | None:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None
