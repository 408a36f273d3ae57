"""What a member gives to its partner to keep, and what the partner does with it."""

from dataclasses import replace

from everstep_contract.record import GenerationStart
from everstep_trainer.agent.effects import (
    AskForMarks,
    ForgetOvertaken,
    GiveSnapshot,
    LookAtSnapshots,
    StopFlusher,
    Warn,
    WriteShard,
)
from everstep_trainer.agent.giving import period, why_not_keep
from everstep_trainer.agent.inputs import PeriodHeard, SnapshotGiven, SnapshotsSeen, Terminate
from everstep_trainer.agent.model import Replication
from everstep_trainer.agent.replicas import MAX_EVERY, Offer
from everstep_trainer.agent.snapshots import Breakpoint, Handover, Snapshot
from support.agent_core import Core, make_order, seat
from support.messages import member

OWN = Snapshot(0, "rank", generation=1, step=5, shard=0, shards=2, total_bytes=100)
SHARED = Snapshot(0, "state", generation=1, step=5, shard=0, shards=1, total_bytes=1000)
PART = replace(SHARED, shards=2, marked=True)
PEERS = replace(OWN, local_rank=1, shard=1, origin=member(1).incarnation)
LATER = replace(OWN, step=6)


def running(index: int = 0) -> Core:
    return Core(index, has_storage=True).warm().run(make_order(1))


def see(core: Core, *found: Snapshot) -> list[Snapshot]:
    """It is time, and this is there: what it gives."""
    before = len(core.done(GiveSnapshot))
    core.pass_seconds(0.5)
    core.hear(SnapshotsSeen(Handover(), found))
    return [effect.snapshot for effect in core.done(GiveSnapshot)[before:]]


def stepping() -> Core:
    """At 0.2 s a step, by its pages."""
    core = running()
    core.step_to(5)
    core.tick()
    return core


def broken_off(core: Core) -> Breakpoint:
    """Why it looked last, but for what it gives."""
    occasions = [effect.occasion for effect in core.done(LookAtSnapshots)]
    return [one for one in occasions if isinstance(one, Breakpoint)][-1]


def looks(core: Core) -> int:
    return sum(one.occasion == Handover() for one in core.done(LookAtSnapshots))


def test_it_gives_what_nobody_else_has() -> None:
    assert see(running(), OWN, SHARED, PEERS) == [OWN]
    assert see(stepping(), PART) == [PART]


def test_it_gives_one_at_a_time_the_newest_and_each_once() -> None:
    core, other = running(), replace(LATER, local_rank=1, shard=1, total_bytes=101)
    assert see(core, OWN, LATER, other) == [LATER]
    assert see(core, OWN, LATER, other) == []
    core.hear(SnapshotGiven(LATER, kept=True))
    assert see(core, OWN, LATER, other) == [other]
    core.hear(SnapshotGiven(other, kept=True))
    assert see(core, OWN, LATER, other) == []


def test_what_was_not_kept_is_given_again() -> None:
    core = running()
    see(core, OWN)
    core.hear(SnapshotGiven(OWN, kept=False))
    assert core.state.giving.skipped == 1
    assert see(core, OWN) == [OWN]


def test_while_something_is_sent_nobody_looks() -> None:
    core = running()
    see(core, OWN)
    before = looks(core)
    core.pass_seconds(5)
    assert looks(core) == before


def test_a_step_is_replicated_once_the_partner_has_every_part_of_it() -> None:
    core, rank = stepping(), replace(OWN, marked=True)
    see(core, rank, PART)
    core.hear(SnapshotGiven(rank, kept=True))
    assert core.state.giving.replicated_step(1) is None
    see(core, rank, PART)
    core.hear(SnapshotGiven(PART, kept=True))
    assert core.state.giving.replicated_step(1) == 5
    core.pass_seconds(1)
    assert core.last_report.report.replicated_step == 5


def test_a_step_whose_ranks_own_is_still_being_copied_is_not_replicated() -> None:
    core = stepping()
    see(core, replace(OWN, step=4), PART)
    core.hear(SnapshotGiven(PART, kept=True))
    assert core.state.giving.replicated is None


def test_of_a_state_that_is_split_up_only_steps_that_all_were_asked_for_are_given() -> None:
    core = stepping()
    unasked = [replace(one, step=9, marked=False) for one in (OWN, PART)]
    assert see(core, *unasked) == []
    assert core.done(AskForMarks) == [AskForMarks(16)]  # of 0.2 s each
    older = replace(PART, step=4)
    assert see(core, *unasked, older, PART) == [PART]
    assert core.done(GiveSnapshot)[-1].every == 16


def test_the_longest_period_of_all_members_counts_until_the_next_order() -> None:
    core = stepping()
    see(core, PART)
    core.hear(PeriodHeard(64))
    core.hear(PeriodHeard(32))
    assert core.done(AskForMarks) == [AskForMarks(16), AskForMarks(64)]
    core.run(make_order(2))
    core.hear(SnapshotGiven(PART, kept=True))
    see(core, PART)
    assert core.done(AskForMarks)[-1] == AskForMarks(16)


def test_without_a_partner_nothing_is_marked_any_more() -> None:
    core = stepping()
    see(core, PART)
    core.order(make_order(2, (0,)))
    assert core.done(AskForMarks)[-1] == AskForMarks(0)


def test_a_copy_has_twice_the_time_that_the_last_one_took() -> None:
    assert period(step_seconds=0.1, seconds=0.0) == 32
    assert period(step_seconds=0.1, seconds=30.0) == 1024
    assert period(step_seconds=600.0, seconds=1.0) == 1
    assert period(step_seconds=0.0, seconds=1e9) == MAX_EVERY


def test_everything_is_given_to_a_new_partner() -> None:
    core = running()
    see(core, OWN)
    core.run(make_order(2, (0, 2)), step=6)
    core.hear(SnapshotGiven(OWN, kept=True))  # by the partner of before
    assert see(core, OWN) == [OWN]
    assert core.done(GiveSnapshot)[-1].to == seat(2).peer
    assert core.state.giving.replicated_step(2) is None


def test_a_member_without_a_partner_says_so_once() -> None:
    order = make_order(1)
    together = order.seats[1].member.model_copy(update={"node": order.seats[0].member.node})
    alone = order.model_copy(
        update={"seats": (order.seats[0], order.seats[1].model_copy(update={"member": together}))}
    )
    core = Core(has_storage=True).warm().run(alone)
    core.run(alone.model_copy(update={"generation": 2, "verdict_id": "v2"}))
    assert [warning.what for warning in core.done(Warn)] == ["no_partner"]
    assert see(core, OWN) == []
    core.state = replace(
        core.state, me=replace(core.state.me, replication=Replication(within_node=True))
    )
    assert see(core, OWN) == [OWN]


def test_without_storage_nothing_is_given() -> None:
    core = Core().warm().run(make_order(1))
    core.pass_seconds(5)
    assert core.done(LookAtSnapshots) == []


def test_the_partner_of_a_lost_member_saves_what_it_kept_for_it() -> None:
    core = running()
    core.order(make_order(2, (0,)))
    occasion = broken_off(core)
    lost = (member(1).incarnation,)
    assert occasion == Breakpoint(writes_state=True, has_lost=True, kept_for=lost, heals=True)
    stranger = replace(PEERS, origin=member(2).incarnation)
    core.hear(SnapshotsSeen(occasion, (OWN, PEERS, stranger)))
    assert [effect.snapshot for effect in core.done(WriteShard)] == [OWN, PEERS]


def test_who_is_not_the_partner_of_a_lost_member_saves_nothing_of_it() -> None:
    core = Core(1, has_storage=True).warm().run(make_order(1, (0, 1, 2)))
    core.order(make_order(2, (0, 1)))
    assert broken_off(core) == Breakpoint(writes_state=False, has_lost=True, heals=True)


def test_where_a_part_was_lost_steps_that_all_have_copied_are_saved_first_and_once_each() -> None:
    core = running()
    core.order(make_order(2, (0,)))
    late = replace(PART, step=9, marked=False)
    copies = [
        replace(PART, origin=member(0).incarnation, step=step, marked=False) for step in (5, 3)
    ]
    theirs = [replace(PART, origin=member(1).incarnation, shard=1, step=step) for step in (5, 3)]
    core.hear(SnapshotsSeen(broken_off(core), (PART, late, *copies, *theirs)))
    written = [effect.snapshot for effect in core.done(WriteShard)]
    assert [(one.shard, one.step) for one in written] == [(0, 5), (0, 3), (1, 5), (1, 3), (0, 9)]


def test_a_copy_of_a_step_that_nobody_here_saved_makes_no_checkpoint() -> None:
    core = running()
    core.order(make_order(2, (0,)))
    core.hear(SnapshotsSeen(broken_off(core), (OWN, replace(PEERS, step=3))))
    assert [effect.snapshot for effect in core.done(WriteShard)] == [OWN]


def test_what_is_kept_for_a_member_that_lives_is_its_own_to_save() -> None:
    core = running()
    core.order(make_order(2, state="hold"))
    core.hear(SnapshotsSeen(broken_off(core), (OWN, PEERS)))
    assert [effect.snapshot for effect in core.done(WriteShard)] == [OWN]


def test_an_order_lets_go_of_futures_that_it_gives_up() -> None:
    core = running()
    history = (GenerationStart(generation=1, start_step=4),)
    core.order(make_order(2, (0, 2)).model_copy(update={"history": history}))
    assert core.done(ForgetOvertaken)[-1].history == history


def offer(index: int = 1, **changes: object) -> Offer:
    kept = replace(OWN, shard=1)
    return Offer.of(kept, member(index).incarnation).model_copy(update=changes)


def refusal(core: Core, offered: Offer, index: int = 1) -> str:
    return why_not_keep(core.state, offered, seat(index).peer.host)


def test_it_keeps_what_members_of_the_gang_have_of_their_own() -> None:
    core = running()
    assert refusal(core, offer()) == ""
    assert refusal(core, offer(), index=0)
    assert refusal(core, offer(2), index=2)
    assert refusal(core, offer(generation=2))
    assert why_not_keep(Core(has_storage=True).state, offer(), seat(1).peer.host)


def test_it_keeps_nothing_of_a_future_that_was_given_up() -> None:
    core = running()
    history = (GenerationStart(generation=2, start_step=4),)
    core.order(make_order(2).model_copy(update={"history": history}))
    assert refusal(core, offer(step=5)) == "generation 1 has no step 5"
    assert refusal(core, offer(step=4)) == ""


def test_r24_a_fenced_member_keeps_and_gives_nothing_more() -> None:
    core = running()
    see(core, OWN)
    core.bus_up = False
    core.pass_seconds(120)
    assert len(core.done(StopFlusher)) == 1
    assert refusal(core, offer())
    core.hear(SnapshotGiven(OWN, kept=True))
    assert see(core, OWN, LATER) == []


def test_a_member_that_ends_keeps_and_gives_nothing_more() -> None:
    core = running()
    core.hear(Terminate("SIGTERM"))
    assert refusal(core, offer())
    assert see(core, OWN) == []


def test_what_an_old_partner_acknowledges_late_makes_no_step_whole() -> None:
    core, rank = stepping(), replace(OWN, marked=True)
    see(core, rank, PART)
    core.run(make_order(2, (0, 1, 2)))
    core.hear(SnapshotGiven(rank, kept=True))
    assert core.state.giving.replicated is None
