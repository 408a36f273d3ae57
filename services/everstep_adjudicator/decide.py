"""The rules, in the order in which they speak: (view, policy, now) -> decision.

Pure and total: the same arguments give the same decision, and there always is one. What a rule can
only say later it says with the instant, so that the loop sleeps until then.
"""

from collections.abc import Callable
from typing import Final

from everstep_runtime.clock import Moment

from everstep_adjudicator.actions import Announce, Decision, Later, Wait
from everstep_adjudicator.admission import (
    rule_on_a_lost_record,
    rule_on_growing,
    rule_on_holding,
    rule_on_losses_while_holding,
    rule_on_the_first,
    wait_for_other_nodes,
)
from everstep_adjudicator.case import Case
from everstep_adjudicator.incidents import keep_books
from everstep_adjudicator.losses import (
    rule_on_broken_groups,
    rule_on_failed_workers,
    rule_on_forming,
    rule_on_losses,
)
from everstep_adjudicator.model import JobView
from everstep_adjudicator.phases import advance_phases, end_with_the_job
from everstep_adjudicator.policy import Policy
from everstep_adjudicator.probing import ask_around
from everstep_adjudicator.rescaling import follow_the_job, rule_on_rescaling, rule_on_the_floor

Rule = Callable[[Case], Decision | Later | None]


def announce(case: Case) -> Decision | None:
    """The record is the outbox: its event is published until we know that it is (R4, R6)."""
    record = case.view.record
    if record is None or case.view.announced == record.verdict_id:
        return None
    return Decision(Announce(record), record.reason)


RULES: Final[tuple[Rule, ...]] = (
    announce,
    end_with_the_job,
    rule_on_losses,
    rule_on_failed_workers,
    rule_on_a_lost_record,
    rule_on_the_first,
    rule_on_holding,
    rule_on_losses_while_holding,
    advance_phases,
    rule_on_broken_groups,
    rule_on_forming,
    ask_around,
    follow_the_job,
    rule_on_rescaling,
    rule_on_the_floor,
    rule_on_growing,
    wait_for_other_nodes,
    keep_books,
)
"""Outbox first, then what cannot wait, then what can; books last, for nothing waits for them."""


def decide(view: JobView, policy: Policy, now: Moment) -> Decision:
    """What to do next about a job, or until when to wait and for what."""
    case = Case.of(view, policy, now)
    waits: list[Later] = []
    for rule in RULES:
        match rule(case):
            case Decision() as decision:
                return decision
            case Later() as later:
                waits.append(later)
            case None:
                continue
    return Decision(Wait(_earliest(waits, now)), "; ".join(wait.why for wait in waits))


def _earliest(waits: list[Later], now: Moment) -> float | None:
    """The next instant named; one that is past waits for a fact, not for time."""
    instants = (wait.at for wait in waits if wait.at is not None)
    return min((at for at in instants if at > now.monotonic), default=None)


def next_deadline(view: JobView, policy: Policy, now: Moment) -> float | None:
    """When time alone may change the decision (monotonic seconds); None: only a fact may."""
    action = decide(view, policy, now).action
    return action.until if isinstance(action, Wait) else now.monotonic
