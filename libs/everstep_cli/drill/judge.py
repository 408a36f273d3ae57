"""From what was observed to the drill's document and its shortfalls; pure."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from everstep_contract.base import Event
from everstep_contract.facts.checkpoint import CheckpointCommitted, SaveFailed
from everstep_contract.facts.job import OrderIssued, VerdictReached
from everstep_contract.facts.member import MemberFormed, MemberSuspected
from everstep_contract.manifest import Manifest
from everstep_contract.orders import Order
from everstep_contract.record import IncidentRecord
from everstep_contract.verdicts import VerdictKind

from everstep_cli.drill.cluster_judge import ClusterSeen, cluster_shortfalls
from everstep_cli.drill.document import (
    Against,
    DrillDocument,
    IncidentResult,
    Leftovers,
    Milestones,
)
from everstep_cli.drill.fault import MEMBERS, Fault
from everstep_cli.drill.restoring import first_formed, restored, restored_wrongly
from everstep_cli.drill.worker_logs import (
    StepLine,
    first_step_of,
    losses,
    median_step_seconds,
    out_of_turn,
    steps_lost,
    workers_kept,
)
from everstep_cli.timeline import MILESTONES

STEPS_AFTER: Final = 3
"""Training has gone on when the last generation has completed this many steps."""


@dataclass(frozen=True)
class Observations:
    """What a drill has seen; ``hurt`` are incarnations, ``steps`` the workers' own lines.

    ``problem``: what the drill waited for in vain. ``best``: the newest whole checkpoint when the
    whole job had ended; ``damaged``: a newer one that was not; ``believed``: names of those that
    are held to be whole at the end. ``must_learn``: the loss falls within these few steps if all
    is well, and no more steps are lost than allowed, as it is with the drill's own model.
    ``cluster``: what became of it, where that is looked at.
    """

    fault: Fault
    target: str
    fault_at: datetime
    min_member: int
    nproc: int
    events: tuple[Event, ...]
    incidents: tuple[IncidentRecord, ...]
    steps: tuple[StepLine, ...]
    hurt: frozenset[str]
    hurt_pids: frozenset[int]
    problem: str | None = None
    best: Manifest | None = None
    damaged: Manifest | None = None
    believed: frozenset[str] = frozenset()
    must_learn: bool = True
    cluster: ClusterSeen | None = None


def document_of(seen: Observations, against: Against, leftovers: Leftovers) -> DrillDocument:
    """The document of one drill."""
    sizes = [len(order.seats) for order in _orders_around(seen)]
    generations = [order.generation for order in _orders_around(seen)]
    milestones = _first_milestones(seen)
    first_loss, last_loss = losses(seen.steps)
    return DrillDocument(
        fault=seen.fault.name,
        target=seen.target,
        healed=not shortfalls(seen),
        expected_verdict=seen.fault.expected_verdict,
        verdicts=_verdicts(seen),
        members_before=sizes[0] if sizes else 0,
        members_lowest=min(sizes, default=0),
        members_after=sizes[-1] if sizes else 0,
        min_member=seen.min_member,
        generation_before=generations[0] if generations else 0,
        generation_after=generations[-1] if generations else 0,
        milestones_seconds=milestones,
        incidents=tuple(_incident_result(incident, seen) for incident in seen.incidents),
        steps_lost=steps_lost(seen.steps),
        restored=restored(_formed(seen), seen.fault_at),
        checkpoints_committed=sum(isinstance(e, CheckpointCommitted) for e in seen.events),
        saves_failed=sum(isinstance(e, SaveFailed) for e in seen.events),
        damaged_checkpoint=seen.damaged.checkpoint if seen.damaged else "",
        workers_kept=workers_kept(seen.steps, seen.hurt_pids),
        median_step_seconds=median_step_seconds(seen.steps, until=seen.fault_at.timestamp()),
        false_suspicions=len(_suspected_wrongly(seen)),
        loss_first=first_loss,
        loss_last=last_loss,
        against=against,
        ratio=_ratio(against, milestones),
        leftovers=leftovers,
    )


def shortfalls(seen: Observations) -> tuple[str, ...]:
    """Why the drill is not healed: everything expected that did not happen; empty when it is."""
    problem = (seen.problem,) if seen.problem else ()
    return (
        *problem,
        *_ruled_wrongly(seen),
        *_trained_wrongly(seen),
        *_kept_wrongly(seen),
        *_written_wrongly(seen),
    )


def _written_wrongly(seen: Observations) -> list[str]:
    """What speaks against what was done to the cluster."""
    if seen.fault.cluster is None or seen.cluster is None:
        return []
    found = cluster_shortfalls(seen.fault.cluster, seen.cluster)
    if seen.fault.cluster.spares_budget:
        found += [f"{one} was asked to go, and it counts as a failure" for one in _blamed(seen)]
    return found


def _blamed(seen: Observations) -> list[str]:
    """Incarnations whose loss is counted against the job: nothing says that it was planned."""
    lost = [incident for incident in seen.incidents if incident.verdict == "shrink"]
    evidence = [item for incident in lost for item in incident.evidence]
    planned = {item.incarnation for item in evidence if item.kind == "planned"}
    return sorted({item.incarnation for item in evidence} - planned)


def _kept_wrongly(seen: Observations) -> list[str]:
    """What speaks against the state that was kept and gone on with."""
    found = restored_wrongly(seen.fault, _formed(seen), seen.best)
    if seen.damaged and seen.damaged.checkpoint in seen.believed:
        found.append(f"{seen.damaged.checkpoint} was damaged and is held to be whole")
    lost = steps_lost(seen.steps)
    if seen.must_learn and lost > seen.fault.most_steps_lost:
        found.append(f"{lost} steps were lost, at most {seen.fault.most_steps_lost} may be")
    return found


def _formed(seen: Observations) -> tuple[MemberFormed, ...]:
    return first_formed(seen.events, seen.fault_at)


def _ruled_wrongly(seen: Observations) -> list[str]:
    found = []
    ruled = _verdicts(seen)
    if not any(ruled == sequence for sequence in seen.fault.verdicts):
        found.append(f"expected {seen.fault.expected_verdict}, ruled {', '.join(ruled) or 'none'}")
    expected = MEMBERS - seen.fault.members_lost
    members = len(_orders_around(seen)[-1].seats) if _orders_around(seen) else 0
    if members != expected:
        found.append(f"expected {expected} members at the end, there are {members}")
    found += [f"incident {i.id} was left open" for i in seen.incidents if i.outcome is None]
    if seen.fault.last_outcome is None:
        found += [f"incident {i.id}: nothing was to change" for i in seen.incidents]
    elif not any(i.outcome == seen.fault.last_outcome for i in seen.incidents):
        found.append(f"no incident ended {seen.fault.last_outcome}")
    return found


def _trained_wrongly(seen: Observations) -> list[str]:
    found = []
    last = max((step.generation for step in seen.steps), default=0)
    gone_on = {step.step for step in seen.steps if step.generation == last}
    if len(gone_on) < STEPS_AFTER:
        found.append(f"the last generation completed {len(gone_on)} steps")
    first_loss, last_loss = losses(seen.steps)
    fell = first_loss is not None and last_loss is not None and last_loss < first_loss
    if seen.must_learn and not fell:
        found.append(f"the loss did not fall: {first_loss} -> {last_loss}")
    smallest = min((step.world_size for step in seen.steps), default=0)
    if smallest < seen.min_member * seen.nproc:
        found.append(f"a step was taken with {smallest} workers")
    found += _ghosts(seen)
    found += out_of_turn(seen.steps)
    return found


def _ghosts(seen: Observations) -> list[str]:
    """Steps that somebody took in a generation after its successor had taken one."""
    found = []
    for step in seen.steps:
        newer = first_step_of(seen.steps, step.generation + 1)
        if newer is not None and step.at > newer.at:
            late = step.at - newer.at
            found.append(
                f"rank {step.rank} stepped in generation {step.generation} {late:.3f} s after "
                f"generation {newer.generation} had"
            )
    return found[:1]


def _orders_around(seen: Observations) -> list[Order]:
    """The order in force when the fault came, and all that came after it."""
    orders = _issued(seen)
    before = [event.order for event in orders if event.at < seen.fault_at]
    return [*before[-1:], *(event.order for event in orders if event.at >= seen.fault_at)]


def _issued(seen: Observations) -> list[OrderIssued]:
    issued = (event for event in seen.events if isinstance(event, OrderIssued))
    return sorted(issued, key=lambda event: event.order.generation)


def _verdicts(seen: Observations) -> tuple[VerdictKind, ...]:
    """What was ruled after the fault; tolerating counts only where nothing else was ruled."""
    ruled = tuple(
        event.verdict.kind
        for event in seen.events
        if isinstance(event, VerdictReached) and event.at >= seen.fault_at
    )
    acted = tuple(kind for kind in ruled if kind != "tolerate")
    return acted or ruled[:1]


def _suspected_wrongly(seen: Observations) -> set[str]:
    suspected = {e.member.incarnation for e in seen.events if isinstance(e, MemberSuspected)}
    return suspected - seen.hurt


def _first_milestones(seen: Observations) -> Milestones:
    if not seen.incidents:
        return dict.fromkeys(MILESTONES)
    found = _milestones(min(seen.incidents, key=lambda i: i.opened_at), seen)
    formed = _formed(seen)
    if found["agreed"] is None and formed:  # the incident ended when the job began to wait
        ordered = (o.at for o in _issued(seen) if o.order.generation == formed[0].generation)
        found["ordered"] = _since(seen, next(ordered, None))
        found["agreed"] = _since(seen, max(event.at for event in formed))
    return found


def _since(seen: Observations, at: datetime | None) -> float | None:
    return None if at is None else round((at - seen.fault_at).total_seconds(), 3)


def _milestones(incident: IncidentRecord, seen: Observations) -> Milestones:
    """Seconds from the fault; the first new step is the workers' own word."""
    found: Milestones = dict.fromkeys(MILESTONES)
    for name, at in incident.milestones.items():
        found[name] = _since(seen, at)
    after = incident.generation_after
    first = first_step_of(seen.steps, after) if after is not None else None
    if first is not None:
        found["first_new_step"] = round(first.at - seen.fault_at.timestamp(), 3)
    return found


def _incident_result(incident: IncidentRecord, seen: Observations) -> IncidentResult:
    return IncidentResult(
        id=incident.id,
        verdict=incident.verdict,
        outcome=incident.outcome,
        generation_before=incident.generation_before,
        generation_after=incident.generation_after,
        milestones_seconds=_milestones(incident, seen),
        steps_lost=incident.steps_lost,
    )


def _ratio(against: Against, milestones: Milestones) -> float | None:
    theirs = against.torchrun.first_new_step_seconds if against.torchrun else None
    ours = milestones["first_new_step"]
    return round(theirs / ours, 1) if theirs and ours else None
