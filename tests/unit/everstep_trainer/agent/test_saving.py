"""Which snapshots an agent makes durable, when, and what it tells of them."""

from dataclasses import replace

from everstep_contract.facts.checkpoint import CheckpointDamaged, SaveFailed, ShardPrepared
from everstep_contract.manifest import ShardKind
from everstep_trainer.agent.effects import Exit, LookAtSnapshots, StopFlusher, WriteShard
from everstep_trainer.agent.inputs import (
    ShardUnwritten,
    ShardWritten,
    SnapshotsSeen,
    Terminate,
    ZygoteLost,
)
from everstep_trainer.agent.model import Limits
from everstep_trainer.agent.snapshots import Breakpoint, Due, Handover, Occasion, Snapshot
from everstep_trainer.link import CheckpointDue, Finished, FoundDamage
from support.agent_core import FINISHED, KILLED, Core, make_order
from support.messages import DURATIONS

GIB = 1 << 30


def of(kind: ShardKind, step: int, *, local_rank: int = 0, generation: int = 1) -> Snapshot:
    """What member 0 of two holds of a step."""
    total_bytes = GIB if kind == "state" else 1000
    shards = 1 if kind == "state" else 2
    return Snapshot(local_rank, kind, generation, step, local_rank, shards, total_bytes)


def running(index: int = 0, limits: Limits | None = None) -> Core:
    """Past the first step of a generation of members 0 and 1, with storage."""
    core = Core(index, has_storage=True, limits=limits)
    return core.warm().run(make_order(1))


def due(step: int, *, writes_state: bool = True) -> CheckpointDue:
    return CheckpointDue(generation=1, step=step, writes_state=writes_state)


def looks(core: Core) -> list[Occasion]:
    """What the memory was looked at for, but for what a peer is given."""
    occasions = [effect.occasion for effect in core.done(LookAtSnapshots)]
    return [occasion for occasion in occasions if not isinstance(occasion, Handover)]


def see(core: Core, *found: Snapshot) -> None:
    """Answer the newest look at the memory."""
    core.hear(SnapshotsSeen(looks(core)[-1], found))


def saving(core: Core, step: int) -> Snapshot:
    """The state of a step is being written."""
    core.say(due(step))
    see(core, of("state", step))
    return of("state", step)


def written(snapshot: Snapshot, seconds: float = 1.0) -> ShardWritten:
    name = f"/checkpoints/{snapshot.kind}"
    return ShardWritten(snapshot, name, snapshot.total_bytes, "0" * 32, seconds)


def asked(core: Core) -> list[Snapshot]:
    return [effect.snapshot for effect in core.done(WriteShard)]


def test_a_rank_saves_what_is_its_own_and_the_state_only_where_it_is_asked_to() -> None:
    core = running()
    core.say(due(10, writes_state=False))
    see(core, of("rank", 10), of("state", 10), of("rank", 9))
    assert asked(core) == [of("rank", 10)]
    core.say(due(20))
    see(core, of("rank", 20), of("state", 20))
    assert asked(core)[1:] == [of("rank", 20), of("state", 20)]


def test_a_durable_shard_is_told_with_its_place_among_the_others() -> None:
    core = running()
    core.hear(written(saving(core, 10)))
    (told,) = core.published(ShardPrepared)
    assert (told.checkpoint, told.kind, told.shard, told.shards) == ("g1-s10", "state", 0, 1)
    assert (told.path, told.total_bytes) == ("/checkpoints/state", GIB)


def test_a_shard_that_was_told_is_told_once() -> None:
    core = running()
    snapshot = saving(core, 10)
    core.hear(written(snapshot))
    core.hear(written(snapshot))
    assert len(core.published(ShardPrepared)) == 1


def test_without_storage_nothing_is_looked_at() -> None:
    core = Core().warm().run(make_order(1))
    core.say(due(10))
    core.order(make_order(2, (0,)))
    assert looks(core) == []


def test_a_snapshot_that_was_written_over_before_it_was_looked_at_is_told_as_lost() -> None:
    core = running()
    core.say(due(10, writes_state=False))
    see(core, of("rank", 11), of("rank", 12))
    (failed,) = core.published(SaveFailed)
    assert (failed.checkpoint, failed.kind, failed.trouble) == ("g1-s10", "rank", "overwritten")
    assert asked(core) == []


def test_ec56_a_full_disk_is_tried_again_ever_more_slowly_and_every_try_is_told() -> None:
    core = running()
    snapshot = saving(core, 10)
    tried_at = []
    for _ in range(9):
        core.hear(ShardUnwritten(snapshot, "full", "no room left"))
        began, tries = core.seconds, len(asked(core))
        while len(asked(core)) == tries:
            core.pass_seconds(0.25)
        tried_at.append(core.seconds - began)
    assert tried_at == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert [failed.attempt for failed in core.published(SaveFailed)] == list(range(1, 10))
    assert {failed.trouble for failed in core.published(SaveFailed)} == {"full"}
    core.hear(written(snapshot))
    assert len(core.published(ShardPrepared)) == 1


def test_ec56_a_snapshot_without_room_keeps_its_memory_for_a_while_and_no_longer() -> None:
    core = running()
    snapshot = saving(core, 10)
    began = core.seconds
    core.hear(ShardUnwritten(snapshot, "full", ""))
    core.pass_seconds(1)
    kept = {effect.keep_until for effect in core.done(WriteShard)}
    assert kept == {began + core.state.me.limits.room_kept_seconds}


def test_ec56_a_newer_checkpoint_takes_the_place_of_one_that_waits_for_room() -> None:
    core = running()
    core.hear(ShardUnwritten(saving(core, 10), "full", ""))
    saving(core, 20)
    core.pass_seconds(120)
    assert asked(core) == [of("state", 10), of("state", 20)]


def test_what_fails_otherwise_is_told_and_left() -> None:
    core = running()
    core.hear(ShardUnwritten(saving(core, 10), "unwritable", "Input/output error"))
    core.pass_seconds(120)
    assert [failed.trouble for failed in core.published(SaveFailed)] == ["unwritable"]
    assert len(asked(core)) == 1


def test_the_lowest_survivor_saves_the_state_when_a_member_is_lost() -> None:
    core = running(index=1)
    core.order(make_order(2, (1,)))
    see(core, of("rank", 9), of("rank", 8), of("state", 9), of("state", 8))
    assert asked(core) == [of("rank", 9), of("rank", 8), of("state", 9)]


def test_other_survivors_save_what_is_their_own() -> None:
    core = Core(1, has_storage=True).warm().run(make_order(1, (0, 1, 2)))
    core.order(make_order(2, (0, 1)))
    see(core, of("rank", 9), of("state", 9))
    assert asked(core) == [of("rank", 9)]


def test_a_part_of_a_state_that_is_split_up_is_saved_by_whoever_holds_it() -> None:
    part = replace(of("state", 9), shard=1, shards=2)
    core = Core(1, has_storage=True).warm().run(make_order(1, (0, 1, 2)))
    core.order(make_order(2, (0, 1)))
    see(core, part)
    assert asked(core) == [part]


def test_a_hold_saves_the_state_though_nobody_is_lost() -> None:
    core = running()
    core.order(make_order(2, state="hold"))
    assert looks(core)[-1] == Breakpoint(writes_state=True)


def test_who_re_forms_goes_first_and_a_job_that_is_halted_saves_at_once() -> None:
    waits = []
    for order in (make_order(2, (0, 1)), make_order(2, state="hold")):
        core = Core(0, has_storage=True).warm().run(make_order(1, (0, 1, 2)))
        core.order(order)
        see(core, of("rank", 9))
        (write,) = core.done(WriteShard)
        waits.append(max(0.0, write.not_before - core.moment.monotonic))
        assert not write.gentle
    assert waits == [Limits().heal_seconds, 0.0]


def test_only_a_save_that_nobody_waits_for_takes_its_time() -> None:
    core = running()
    saving(core, 5)
    assert [write.gentle for write in core.done(WriteShard)] == [True]


def test_members_that_join_break_nothing_off() -> None:
    core = running()
    core.order(make_order(2, (0, 1, 2)))
    assert looks(core) == []


def test_what_is_durable_already_or_being_written_is_not_written_again() -> None:
    core = running()
    core.hear(written(saving(core, 10)))
    core.say(due(10))
    see(core, of("state", 10), of("rank", 10))
    core.order(make_order(2, state="hold"))
    see(core, of("state", 10), of("rank", 10))
    assert asked(core) == [of("state", 10), of("rank", 10)]


def test_ec45_a_terminated_member_waits_for_its_newest_snapshot_and_then_goes() -> None:
    core = running()
    core.hear(Terminate("SIGTERM"))
    see(core, of("state", 9))
    core.die(status=FINISHED)
    assert core.done(Exit) == []
    core.hear(written(of("state", 9)))
    assert core.done(Exit)[-1].code == 143
    assert len(core.published(ShardPrepared)) == 1


def test_ec76_an_end_waits_no_longer_than_its_grace_and_tells_what_it_abandoned() -> None:
    core = running(limits=Limits(grace_seconds=3))
    core.hear(Terminate("SIGTERM"))
    see(core, of("state", 9))
    core.die(status=FINISHED)
    core.pass_seconds(2.75)
    assert core.done(Exit) == []
    core.pass_seconds(0.25)
    assert core.done(Exit)[-1].code == 143
    assert [failed.trouble for failed in core.published(SaveFailed)] == ["abandoned"]


def test_ec45_a_save_that_would_outlast_the_grace_is_not_tried() -> None:
    core = running(limits=Limits(grace_seconds=3))
    core.hear(written(saving(core, 5), seconds=4))
    core.hear(Terminate("SIGTERM"))
    see(core, of("state", 9))
    assert asked(core) == [of("state", 5)]
    (failed,) = core.published(SaveFailed)
    assert failed.trouble == "abandoned"
    assert failed.detail == "it takes 4.0 s, and 3.0 s are left"
    core.die(status=FINISHED)
    assert core.done(Exit)[-1].code == 143


def test_a_member_whose_last_worker_has_failed_looks_before_it_leaves() -> None:
    core = running(limits=Limits(max_restarts=0))
    core.die(status=KILLED)
    assert core.done(Exit) == []
    see(core, of("state", 9))
    core.hear(written(of("state", 9)))
    assert core.done(Exit)[-1].code == 1


def test_a_job_that_ends_by_itself_waits_for_its_last_checkpoint() -> None:
    core = running()
    snapshot = saving(core, 10)
    core.say(Finished(step=10))
    core.die(status=FINISHED)
    see(core, of("state", 10))
    core.pass_seconds(core.state.me.limits.grace_seconds + 1)
    assert core.done(Exit) == []
    core.hear(written(snapshot))
    assert core.done(Exit)[-1].code == 0


def test_the_first_signal_after_a_stop_still_leaves_the_save_its_grace() -> None:
    core = running()
    core.order(make_order(2, (), state="stop"))
    see(core, of("state", 9))
    core.hear(Terminate("SIGTERM"))
    core.die(status=FINISHED)
    assert core.done(Exit) == []
    core.hear(written(of("state", 9)))
    assert core.done(Exit)[-1].code == 1


def test_a_second_signal_leaves_a_save_no_grace() -> None:
    core = running()
    core.hear(Terminate("SIGTERM"))
    see(core, of("state", 9))
    core.hear(Terminate("SIGTERM"))
    core.die()
    assert core.done(Exit)[-1].code == 143
    assert [failed.trouble for failed in core.published(SaveFailed)] == ["abandoned"]


def test_a_lost_zygote_does_not_cost_what_is_being_saved() -> None:
    core = running()
    core.hear(Terminate("SIGTERM"))
    see(core, of("state", 9))
    core.hear(ZygoteLost("gone"))
    core.die()
    assert core.done(Exit) == []
    core.hear(written(of("state", 9)))
    assert core.done(Exit)[-1].code == 143


def test_r24_a_fenced_member_writes_nothing_more() -> None:
    core = running()
    snapshot = saving(core, 10)
    core.bus_up = False
    core.pass_seconds(DURATIONS.self_fence_seconds + 1)
    core.say(due(11))
    core.hear(written(snapshot))
    core.die()
    assert len(core.done(StopFlusher)) == 1
    assert looks(core)[1:] == []
    assert core.published(ShardPrepared) == []
    assert [failed.trouble for failed in core.published(SaveFailed)] == ["abandoned"]
    assert core.done(Exit)[-1].code == 75


def test_damage_that_a_worker_found_is_told_to_everybody() -> None:
    core = running()
    core.say(FoundDamage(checkpoint="g1-s5", detail="its hash is another"))
    (damaged,) = core.published(CheckpointDamaged)
    assert (damaged.checkpoint, damaged.detail) == ("g1-s5", "its hash is another")


def test_a_due_names_whose_memory_is_meant() -> None:
    core = Core(nproc=2, has_storage=True).warm().run(make_order(1, nproc=2))
    core.say(due(10, writes_state=False), rank=1)
    assert looks(core)[-1] == Due(1, 1, 10, ("rank",))
