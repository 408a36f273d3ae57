"""An incident's timeline (EC-69)."""

from datetime import timedelta
from typing import cast

import pytest
from everstep_cli.timeline import MILESTONES, timeline, total_seconds
from everstep_contract.examples import EXAMPLES
from everstep_contract.facts.incident import IncidentEnded, IncidentOpened

ENDED = cast("IncidentEnded", EXAMPLES[IncidentEnded.TYPE]).incident
OPENED = cast("IncidentOpened", EXAMPLES[IncidentOpened.TYPE]).incident


def test_ec69_all_seven_milestones_stand_in_order_and_add_up_to_the_whole() -> None:
    stages = timeline(ENDED)
    assert tuple(stage.name for stage in stages) == MILESTONES
    since = [stage.since_first_seconds for stage in stages]
    assert since == sorted(since, key=lambda seconds: seconds or 0.0)
    assert sum(stage.seconds or 0.0 for stage in stages) == pytest.approx(since[-1])


def test_a_milestone_that_was_not_reached_is_said_to_be_open() -> None:
    assert [stage.seconds for stage in timeline(OPENED)] == [0.0] + [None] * 6


def test_a_stage_over_its_budget_is_marked() -> None:
    late = ENDED.milestones["agreed"] + timedelta(seconds=5)
    slow = ENDED.model_copy(update={"milestones": ENDED.milestones | {"agreed": late}})
    assert [stage.name for stage in timeline(slow) if stage.over_budget] == ["agreed"]


def test_an_incident_without_milestones_took_no_time() -> None:
    assert total_seconds(OPENED.model_copy(update={"milestones": {}})) == 0.0
