"""Whatever happens in whatever order: promises that no history may break."""

import random
from itertools import pairwise

from everstep_adjudicator.actions import Wait
from everstep_adjudicator.decide import decide, next_deadline
from everstep_adjudicator.policy import Policy
from everstep_contract.record import JobRecord
from everstep_runtime.clock import Moment
from hypothesis import given, settings
from hypothesis import strategies as st
from support.courtroom import Courtroom, running
from support.gang import member

QUICK = Policy(hold_seconds=20, form_seconds=3)


class Trouble:
    """Random facts about a job, drawn from a seed."""

    def __init__(self, seed: int, *, members: int, min_member: int) -> None:
        self.random = random.Random(seed)
        self.room = running(members, min_member=min_member, policy=QUICK)
        self.lives = dict.fromkeys(range(members), 1)

    def happen(self) -> None:
        index = self.random.choice(sorted(self.lives))
        who = member(index, self.lives[index])
        event = self.random.choice(
            [
                self.die,
                self.fall_silent,
                self.fail,
                self.leave,
                self.come_back,
                self.obey,
                self.wait,
            ]
        )
        event(index, who.incarnation in self.room.agents)

    def die(self, index: int, alive: bool) -> None:
        if alive:
            self.room.lose(member(index, self.lives[index]))

    def fall_silent(self, index: int, alive: bool) -> None:
        who = member(index, self.lives[index])
        self.room.hear(self.room.suspicion(who, observation=self.random.randint(1, 9)))
        if who.incarnation in self.room.view.probing:
            outcomes = ["silent"] if not alive else ["alive", "silent", None]
            self.room.answer(who, self.random.choice(outcomes))

    def fail(self, index: int, alive: bool) -> None:
        if alive:
            self.room.hear(self.room.exit_of(member(index, self.lives[index])))

    def leave(self, index: int, alive: bool) -> None:
        if alive:
            self.room.kill(member(index, self.lives[index]).incarnation)
            self.room.hear(self.room.departure(member(index, self.lives[index])))

    def come_back(self, index: int, alive: bool) -> None:
        if not alive:
            self.lives[index] += 1
            self.room.start(member(index, self.lives[index]))

    def obey(self, index: int, alive: bool) -> None:
        record = self.room.record
        living = all(incarnation in self.room.agents for incarnation in record.incarnations)
        if living and record.seats and record.state != "stop":
            self.room.obey(until=self.random.choice(["joined", "formed", "stepping"]))

    def wait(self, index: int, alive: bool) -> None:
        self.room.pass_time(self.random.choice([0.05, 0.5, 4, 25]))


def history(seed: int, *, members: int, min_member: int, events: int = 25) -> Courtroom:
    trouble = Trouble(seed, members=members, min_member=min_member)
    for _ in range(events):
        trouble.happen()
    return trouble.room


SEEDS = st.integers(0, 2**32)
GANGS = st.integers(2, 6).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n)))


@settings(max_examples=15, deadline=None)
@given(SEEDS, GANGS)
def test_no_generation_below_min_member_ever_runs(seed: int, gang: tuple[int, int]) -> None:
    room = history(seed, members=gang[0], min_member=gang[1])
    assert all(len(r.seats) >= gang[1] for r in room.records if r.state == "run")
    assert all(len(r.seats) <= gang[0] for r in room.records)


@settings(max_examples=15, deadline=None)
@given(SEEDS, GANGS)
def test_survivors_keep_their_order_and_newcomers_come_last(
    seed: int, gang: tuple[int, int]
) -> None:
    room = history(seed, members=gang[0], min_member=gang[1])
    for before, after in pairwise(room.records):
        kept = [i for i in before.incarnations if i in after.incarnations]
        assert list(after.incarnations[: len(kept)]) == kept


@settings(max_examples=15, deadline=None)
@given(SEEDS, GANGS)
def test_generations_only_grow_and_no_verdict_id_comes_twice(
    seed: int, gang: tuple[int, int]
) -> None:
    records = history(seed, members=gang[0], min_member=gang[1]).records
    assert all(before.generation < after.generation for before, after in pairwise(records))
    assert len({record.verdict_id for record in records}) == len(records)


@settings(max_examples=15, deadline=None)
@given(SEEDS, GANGS)
def test_nobody_is_left_out_without_evidence(seed: int, gang: tuple[int, int]) -> None:
    def unexplained(before: JobRecord, after: JobRecord) -> list[str]:
        explained = {item.incarnation for item in after.evidence}
        gone = [i for i in before.incarnations if i not in after.incarnations]
        return [incarnation for incarnation in gone if incarnation not in explained]

    records = history(seed, members=gang[0], min_member=gang[1]).records
    running_ones = [(b, a) for b, a in pairwise(records) if b.state == "run" and a.state != "stop"]
    assert all(unexplained(before, after) == [] for before, after in running_ones)


@settings(max_examples=15, deadline=None)
@given(SEEDS, GANGS)
def test_nothing_changes_before_the_deadline_that_was_named(
    seed: int, gang: tuple[int, int]
) -> None:
    room = history(seed, members=gang[0], min_member=gang[1])
    until = next_deadline(room.view, room.policy, room.now)
    just_before = min(until if until is not None else 1e9, room.monotonic + 1.0) - 0.001
    if just_before <= room.monotonic:
        return
    later = Moment(room.now.at, just_before)
    assert isinstance(decide(room.view, room.policy, later).action, Wait)


def test_the_same_view_gives_the_same_decision() -> None:
    room = running()
    room.fold(room.suspicion(member(3)))
    assert decide(room.view, room.policy, room.now) == decide(room.view, room.policy, room.now)


def test_waiting_says_what_for() -> None:
    room = running(6, min_member=6)
    room.lose(member(2))
    assert "1 more members to reach the floor" in room.waiting_for
    room.start(member(7, 1, "uid-2"))
    assert "1 of another life of the job wait until uid-1 is over" in room.waiting_for
