"""What is told to the bus, each fact once: joined, formed, steps, and the report."""

from dataclasses import replace

from everstep_contract.facts.job import StepAdvanced
from everstep_contract.facts.member import MemberFormed, MemberJoined
from everstep_runtime.clock import Moment

from everstep_trainer.agent.effects import Effect, Publish, Report, Turn
from everstep_trainer.agent.meaning import leads
from everstep_trainer.agent.model import AgentState
from everstep_trainer.agent.report import has_left, phase, report, report_key

_READY = "candidate/"
"""Marks what was told as a candidate: in ``joined`` it differs from any verdict obeyed."""


def tell_joined(state: AgentState, moment: Moment) -> Turn:
    """Left and warm: at the generation's barrier, parked by a hold, or a candidate (R16, R19)."""
    if state.left_seconds is None and all(has_left(state, worker) for worker in state.workers):
        state = replace(state, left_seconds=moment.monotonic - state.heard_at)
    now = phase(state)
    if now not in ("ready", "holding", "joined", "formed", "stepping"):
        return state, ()
    candidate = now == "ready"
    key = (_READY if candidate else "") + state.verdict_id
    store = state.store.endpoint
    if state.told.joined == key or store is None:
        return state, ()
    state = replace(state, told=replace(state.told, joined=key))
    state, said = report(state, store, moment)
    joined = MemberJoined(
        at=moment.at,
        job=state.me.job,
        member=state.me.member,
        generation=0 if candidate else state.generation,
        verdict_id=state.verdict_id,
        report=said,
    )
    return state, (Publish(joined),)


def tell_formed(state: AgentState, moment: Moment) -> Turn:
    """Every worker is in the new group and holds the agreed state."""
    if phase(state) not in ("formed", "stepping") or state.told.formed == state.verdict_id:
        return state, ()
    state = replace(state, told=replace(state.told, formed=state.verdict_id))
    formed = MemberFormed(
        at=moment.at,
        job=state.me.job,
        member=state.me.member,
        generation=state.generation,
        verdict_id=state.verdict_id,
        agreed_step=state.agreed_step,
        steps_lost=state.steps_lost,
        left_seconds=state.left_seconds or 0.0,
        formed_seconds=moment.monotonic - state.heard_at,
        source=state.restored.source,
        checkpoint=state.restored.checkpoint,
        chosen_seconds=_since_order(state, state.restored.chosen_at),
        loaded_seconds=_since_order(state, state.restored.loaded_at),
    )
    return state, (Publish(formed),)


def _since_order(state: AgentState, at: float | None) -> float | None:
    return None if at is None else max(0.0, at - state.heard_at)


def tell_steps(state: AgentState, moment: Moment) -> Turn:
    """The member with rank 0 tells a generation's first step at once, and then now and then."""
    first_worker, told = state.workers[0], state.told
    in_step = first_worker.stage == "stepping" and first_worker.generation == state.generation
    formed = told.formed == state.verdict_id
    if not in_step or not formed or not leads(state) or state.ending:
        return state, ()
    first = told.first_step != state.verdict_id
    due = moment.monotonic >= told.advanced_at + state.me.limits.advance_seconds
    if not first and (not due or first_worker.step <= told.advanced_step):
        return state, ()
    told = replace(
        told,
        first_step=state.verdict_id,
        advanced_step=first_worker.step,
        advanced_at=moment.monotonic,
    )
    advanced = StepAdvanced(
        at=moment.at,
        job=state.me.job,
        job_uid=state.me.member.job_uid,
        member=state.me.member,
        generation=state.generation,
        verdict_id=state.verdict_id,
        step=first_worker.step,
        first=first,
        step_seconds=first_worker.step_seconds,
    )
    return replace(state, told=told), (Publish(advanced),)


def report_when_due(state: AgentState, moment: Moment) -> Turn:
    """At once when something changed, else at most twice a second."""
    store = state.store.endpoint
    if store is None:
        return state, ()
    key = report_key(state)
    due = moment.monotonic >= state.reported_at + state.me.limits.report_seconds
    if key == state.reported and not due:
        return state, ()
    state, said = report(state, store, moment)
    state = replace(state, reported=key, reported_at=moment.monotonic)
    effects: tuple[Effect, ...] = (Report(said),)
    return state, effects
