"""Which snapshots become durable, when, and what is told of it (R24, R26)."""

from dataclasses import replace
from typing import assert_never

from everstep_contract.base import MAX_TEXT
from everstep_contract.facts.checkpoint import SaveFailed, SaveTrouble, ShardPrepared
from everstep_contract.orders import Order
from everstep_runtime.clock import Moment

from everstep_trainer.agent import giving
from everstep_trainer.agent.effects import (
    Effect,
    LookAtSnapshots,
    NoteFlush,
    Publish,
    Turn,
    WriteShard,
)
from everstep_trainer.agent.inputs import ShardUnwritten, ShardWritten, SnapshotsSeen
from everstep_trainer.agent.model import AgentState, Me
from everstep_trainer.agent.snapshots import (
    Breakpoint,
    Due,
    Handover,
    Occasion,
    Save,
    Snapshot,
)
from everstep_trainer.link import CheckpointDue


def hear_due(state: AgentState, local_rank: int, message: CheckpointDue) -> Turn:
    """A worker has a snapshot to save: its own, and where it writes it the shared state."""
    due = Due(
        local_rank=local_rank,
        generation=message.generation,
        step=message.step,
        kinds=("rank", "state") if message.writes_state else ("rank",),
    )
    return look(state, due)


def look(state: AgentState, occasion: Occasion) -> Turn:
    """Have the memory looked at. Who is fenced saves nothing more (R24)."""
    if not state.me.has_storage or (state.ending and state.ending.reason == "fenced"):
        return state, ()
    saves = replace(state.saves, looking=state.saves.looking + 1)
    return replace(state, saves=saves), (LookAtSnapshots(occasion),)


def break_off(state: AgentState, previous: Order | None, order: Order) -> Turn:
    """An order ends a generation that lost members, or halts the job: save what there is.

    Each member saves what is its own ranks'; the state, which all hold, is the lowest survivor's.
    """
    mine = state.me.incarnation
    if previous is None or previous.state != "run" or previous.seat_of(mine) is None:
        return state, ()
    before = [seat.member.incarnation for seat in previous.seats]
    survivors = [incarnation for incarnation in before if order.seat_of(incarnation)]
    if order.state == "run" and survivors == before:
        return state, ()
    lowest = (survivors or before)[0]
    has_lost = bool(survivors) and survivors != before
    kept_for = _kept_for(state.me, previous, order)
    return look(state, Breakpoint(lowest == mine, has_lost, kept_for, order.state == "run"))


def _kept_for(me: Me, previous: Order, order: Order) -> tuple[str, ...]:
    """Lost members whose partner this one was. A hold for want of all members has lost none."""
    before = [seat.member.incarnation for seat in previous.seats] if order.seats else []
    lost = [incarnation for incarnation in before if order.seat_of(incarnation) is None]
    mine = previous.seat_of(me.incarnation)
    return tuple(one for one in lost if giving.keeper_of(one, previous, me) == mine)


def break_off_at_the_end(state: AgentState) -> Turn:
    """This member goes, perhaps with all others: then the lowest seat saves the state."""
    order = state.order
    if order is None or not order.seats:
        return state, ()
    lowest = order.seats[0].member.incarnation
    return look(state, Breakpoint(writes_state=lowest == state.me.incarnation))


def hear_snapshots(state: AgentState, heard: SnapshotsSeen, moment: Moment) -> Turn:
    """Save what the occasion asks for, or give it to a peer."""
    match heard.occasion:
        case Due() as due:
            wanted = tuple(snapshot for snapshot in heard.found if _is_due(snapshot, due))
            effects = _missing(state, due, heard.found, moment)
        case Breakpoint() as occasion:
            wanted, effects = _newest(heard.found, occasion, state.me), ()
        case Handover():
            return giving.hand_over(state, heard.found, moment)
        case _:
            assert_never(heard.occasion)
    state = replace(state, saves=replace(state.saves, looking=state.saves.looking - 1))
    is_due = isinstance(heard.occasion, Due)
    not_before = _not_before(state.me, heard.occasion, moment)
    for snapshot in wanted:
        write = WriteShard(snapshot, 0.0, not_before, gentle=is_due)
        state, more = _begin(state, write, moment)
        effects += more
    return state, effects


def _is_due(snapshot: Snapshot, due: Due) -> bool:
    is_meant = snapshot.place in [("", due.local_rank, kind) for kind in due.kinds]
    return is_meant and snapshot.version == (due.generation, due.step)


def _missing(
    state: AgentState, due: Due, found: tuple[Snapshot, ...], moment: Moment
) -> tuple[Effect, ...]:
    """Training was faster than its agent: the place holds another step by now."""
    missing: list[Effect] = []
    for kind in due.kinds:
        held = [s for s in found if s.place == ("", due.local_rank, kind)]
        if held and not any(_is_due(snapshot, due) for snapshot in held):
            gone = replace(held[0], generation=due.generation, step=due.step)
            missing.append(_failed(state.me, Save(gone), "overwritten", "", moment))
    return tuple(missing)


def _newest(found: tuple[Snapshot, ...], occasion: Breakpoint, me: Me) -> tuple[Snapshot, ...]:
    """Small first. Of what is a rank's own both: members may be a step apart, and whoever writes
    the state decides which counts. A part of a state that was split up nobody else may have, and
    what was kept for a lost member neither: of that, what may become whole with what is here."""
    own = [one for one in found if not one.origin]
    states = [one for one in own if one.kind == "state"]
    wanted = [one for one in states if occasion.writes_state or one.shards > 1]
    newest = {one.shard: one for one in sorted(wanted, key=lambda one: one.version)}
    here = [*newest.values(), *(one for one in own if one.kind == "rank")]
    if occasion.has_lost:
        here += [one for one in states if one.shards > 1 and one.marked]
        here += [one for one in found if one.origin == me.incarnation]
    versions = {one.version for one in here}
    kept = [one for one in found if one.origin in occasion.kept_for and one.version in versions]
    parts = {one.part: one for one in (*here, *kept)}
    return tuple(sorted(parts.values(), key=_haste))


def _haste(snapshot: Snapshot) -> tuple[bool, int]:
    """The steps that all members copied are whole more likely than what each had last."""
    is_last = snapshot.kind == "state" and not snapshot.origin and not snapshot.marked
    return is_last, snapshot.total_bytes


def _not_before(me: Me, occasion: Occasion, moment: Moment) -> float:
    """What is safe in memory waits until who re-forms needs the machine no more."""
    heals = isinstance(occasion, Breakpoint) and occasion.heals
    return moment.monotonic + me.limits.heal_seconds if heals else 0.0


def _begin(state: AgentState, write: WriteShard, moment: Moment) -> Turn:
    """Of a shard that waits for room the newer snapshot counts."""
    saves, snapshot = state.saves, write.snapshot
    known = (*saves.durable, *(save.snapshot for save in saves.under_way))
    if snapshot.part in [one.part for one in known]:
        return state, ()
    for older in saves.under_way:
        if older.snapshot.place == snapshot.place and older.retry_at is not None:
            saves = saves.without(older.snapshot)
    save = Save(snapshot, keep_until=moment.monotonic + state.me.limits.room_kept_seconds)
    state = replace(state, saves=saves)
    why_not = _out_of_time(state, snapshot, moment)
    if why_not:
        return state, (_failed(state.me, save, "abandoned", why_not, moment),)
    return replace(state, saves=saves.having(save)), (replace(write, keep_until=save.keep_until),)


def _out_of_time(state: AgentState, snapshot: Snapshot, moment: Moment) -> str:
    """Why it is not worth trying, going by what was measured before (EC-45); empty if it is."""
    if state.ending is None or not state.saves.bytes_per_second:
        return ""
    waiting = sum(save.snapshot.total_bytes for save in state.saves.under_way)
    needed = (waiting + snapshot.total_bytes) / state.saves.bytes_per_second
    left = state.ending.saved_by - moment.monotonic
    return f"it takes {needed:.1f} s, and {left:.1f} s are left" if needed > left else ""


def hear_written(state: AgentState, heard: ShardWritten, moment: Moment) -> Turn:
    """A shard is durable: told however late, for the checkpoint may wait for it alone."""
    snapshot = heard.snapshot
    if state.saves.find(snapshot) is None:
        return state, ()
    saves = state.saves.without(snapshot).with_durable(snapshot)
    if snapshot.kind == "state":  # a rank's own is too small to measure by
        rate = snapshot.total_bytes / max(heard.seconds, 1e-3)
        saves = replace(saves, bytes_per_second=rate)
    prepared = ShardPrepared(
        at=moment.at,
        job=state.me.job,
        member=state.me.member,
        checkpoint=snapshot.checkpoint,
        generation=snapshot.generation,
        step=snapshot.step,
        kind=snapshot.kind,
        shard=snapshot.shard,
        shards=snapshot.shards,
        path=heard.path,
        total_bytes=heard.total_bytes,
        xxh3_128=heard.xxh3_128,
    )
    effects: tuple[Effect, ...] = (Publish(prepared),)
    if snapshot.kind == "state":
        effects += (NoteFlush(heard.seconds),)
    return replace(state, saves=saves), effects


def hear_unwritten(state: AgentState, heard: ShardUnwritten, moment: Moment) -> Turn:
    """A full disk is tried again, as others may make room; anything else waits for the next."""
    save = state.saves.find(heard.snapshot)
    if save is None:
        return state, ()
    saves = state.saves.without(heard.snapshot)
    if heard.trouble == "full":
        limits = state.me.limits
        pause = limits.room_pause_seconds * 2 ** min(save.attempt - 1, 16)
        at = moment.monotonic + min(pause, limits.room_pause_limit_seconds)
        saves = state.saves.having(replace(save, attempt=save.attempt + 1, retry_at=at))
    state = replace(state, saves=saves)
    return state, (_failed(state.me, save, heard.trouble, heard.detail, moment),)


def retry(state: AgentState, moment: Moment) -> Turn:
    """Write again what there was no room for, when its pause is over."""
    effects: list[Effect] = []
    for save in state.saves.under_way:
        if save.retry_at is not None and moment.monotonic >= save.retry_at:
            again = replace(save, retry_at=None)
            state = replace(state, saves=state.saves.having(again))
            effects.append(WriteShard(save.snapshot, save.keep_until))
    return state, tuple(effects)


def abandon(state: AgentState, detail: str, moment: Moment) -> Turn:
    """The agent ends before these are durable; what is half written is never told of (EC-76)."""
    told: tuple[Effect, ...] = tuple(
        _failed(state.me, save, "abandoned", detail, moment) for save in state.saves.under_way
    )
    return replace(state, saves=replace(state.saves, under_way=(), looking=0)), told


def _failed(me: Me, save: Save, trouble: SaveTrouble, detail: str, moment: Moment) -> Publish:
    snapshot = save.snapshot
    failed = SaveFailed(
        at=moment.at,
        job=me.job,
        member=me.member,
        checkpoint=snapshot.checkpoint,
        generation=snapshot.generation,
        step=snapshot.step,
        kind=snapshot.kind,
        shard=snapshot.shard,
        trouble=trouble,
        attempt=save.attempt,
        detail=detail[:MAX_TEXT],
    )
    return Publish(failed)
