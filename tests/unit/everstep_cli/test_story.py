"""What of a drill is told."""

from typing import cast

from everstep_cli.drill.story import Story
from everstep_contract.base import Event
from everstep_contract.examples import EXAMPLES
from everstep_contract.facts.checkpoint import CheckpointCommitted, SaveFailed
from everstep_contract.facts.job import PodObserved, StepAdvanced, VerdictReached
from everstep_contract.facts.member import MemberLeft

RULED, STEPPED, OBSERVED, LEFT, COMMITTED, FAILED = (
    cast("Event", EXAMPLES[kind.TYPE])
    for kind in (
        VerdictReached,
        StepAdvanced,
        PodObserved,
        MemberLeft,
        CheckpointCommitted,
        SaveFailed,
    )
)


def test_the_story_is_what_was_decided_and_the_first_step_of_a_generation() -> None:
    story = Story(everything=False)
    assert [story.tells(event) for event in (RULED, STEPPED, STEPPED, OBSERVED, LEFT)] == [
        *(True, True, False, False, False)
    ]


def test_everything_is_told_but_not_twice() -> None:
    story = Story(everything=True)
    assert [story.tells(event) for event in (LEFT, OBSERVED, OBSERVED)] == [True, True, False]


def test_of_checkpoints_trouble_is_told_and_its_end() -> None:
    story = Story(everything=False)
    events = (COMMITTED, FAILED, FAILED, COMMITTED, COMMITTED)
    assert [story.tells(event) for event in events] == [False, True, False, True, False]
