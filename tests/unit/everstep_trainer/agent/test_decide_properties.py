"""Whatever an agent hears in whatever order: what it does stays within the protocol."""

from everstep_contract.facts.checkpoint import SaveFailed, ShardPrepared
from everstep_contract.orders import Order
from everstep_trainer.agent.effects import (
    Effect,
    Exit,
    KillWorker,
    Publish,
    Report,
    SendToWorker,
    StartWorker,
    WriteShard,
)
from everstep_trainer.agent.inputs import (
    Input,
    OrderHeard,
    PeersReached,
    ShardUnwritten,
    ShardWritten,
    SnapshotsSeen,
    StoreDied,
    StoreUp,
    Terminate,
    Tick,
    WorkerDied,
    WorkerSaid,
    WorkerStarted,
)
from everstep_trainer.agent.model import AgentState, Limits
from everstep_trainer.agent.snapshots import Breakpoint, Due, Snapshot
from everstep_trainer.link import (
    Assignment,
    CheckpointDue,
    Failed,
    Finished,
    FirstStep,
    Formed,
    FoundDamage,
    Hello,
    Left,
    Parked,
    ToAgent,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from support.agent_core import CRASHED, FINISHED, KILLED, Core, make_order, page, seat

RANKS = st.integers(0, 1)
GENERATIONS = st.integers(0, 5)
MEMBERS = st.sampled_from([(0,), (0, 1), (1, 0), (1,), (1, 2), ()])


def verdict(generation: int, fork: int) -> str:
    return f"v{generation}-{fork}"


ORDERS = st.builds(
    lambda generation, fork, members, state, restart: OrderHeard(
        make_order(
            generation,
            members,
            state=state,
            verdict_id=verdict(generation, fork),
            nproc=2,
            restart=(0,) if restart else (),
        )
    ),
    st.integers(1, 5),
    st.integers(0, 1),
    MEMBERS,
    st.sampled_from(["run", "run", "run", "hold", "stop"]),
    st.booleans(),
)


def _words(generation: int, fork: int, version: int) -> st.SearchStrategy[ToAgent]:
    told = verdict(generation, fork)
    step = max(version, 0)
    return st.sampled_from(
        [
            Hello(local_rank=0, pid=1),
            Parked(generation=generation, version=version),
            Left(generation=generation, left_generation=0, version=version),
            Formed(generation=generation, verdict_id=told, agreed_step=step, steps_lost=0),
            FirstStep(generation=generation, verdict_id=told, step=step, step_seconds=0.1),
            Failed(
                generation=generation,
                verdict_id=told,
                while_forming=False,
                peer_ranks=(0, 9),
                detail="reset",
            ),
            CheckpointDue(generation=generation, step=step, writes_state=fork == 0),
            FoundDamage(checkpoint=f"g{generation}-s{step}", detail="its hash is another"),
            Finished(step=step),
        ]
    )


WORDS = st.tuples(GENERATIONS.filter(bool), st.integers(0, 1), st.integers(-1, 9)).flatmap(
    lambda told: _words(*told)
)
SNAPSHOTS = st.builds(
    lambda local_rank, kind, step: Snapshot(local_rank, kind, 1, step, local_rank, 2, 10),
    RANKS,
    st.sampled_from(["state", "rank"]),
    st.integers(1, 3),
)
OCCASIONS = st.one_of(
    st.builds(Due, RANKS, st.just(1), st.integers(1, 3), st.just(("rank", "state"))),
    st.builds(Breakpoint, st.booleans()),
)
SAVES: st.SearchStrategy[Input] = st.one_of(
    st.builds(SnapshotsSeen, OCCASIONS, st.lists(SNAPSHOTS, max_size=4).map(tuple)),
    SNAPSHOTS.map(lambda one: ShardWritten(one, "/checkpoints/a", 10, "0" * 32, 1.0)),
    st.builds(
        ShardUnwritten,
        SNAPSHOTS,
        st.sampled_from(["full", "unwritable", "overwritten"]),
        st.just("so it was"),
    ),
)
INPUTS: st.SearchStrategy[Input] = st.one_of(
    ORDERS,
    st.builds(WorkerSaid, RANKS, st.integers(1, 3), WORDS),
    st.builds(WorkerStarted, RANKS, st.integers(1, 3), st.integers(100, 200)),
    st.builds(WorkerDied, RANKS, st.integers(1, 3), st.sampled_from([KILLED, CRASHED, FINISHED])),
    st.just(StoreUp(seat(0).store)),
    st.just(StoreDied()),
    SAVES,
    st.builds(PeersReached, st.builds(verdict, st.integers(1, 5), st.integers(0, 1))),
    st.builds(lambda up, step: Tick(up, (page(step), None)), st.booleans(), st.integers(0, 20)),
)
HISTORIES = st.lists(st.tuples(INPUTS, st.sampled_from([0.0, 0.1, 1.0, 20.0])), max_size=40)
FEW = settings(max_examples=40, deadline=None)
"""Enough before a commit; histories of whole jobs are in the simulation."""


def live(history: list[tuple[Input, float]]) -> list[tuple[AgentState, Input, tuple[Effect, ...]]]:
    """Every state an agent was in before each input, and what it did then."""
    core = Core(nproc=2, has_storage=True, limits=Limits(max_restarts=50))
    turns = []
    for heard, pause in history:
        core.seconds += pause
        before = core.state
        turns.append((before, heard, core.hear(heard)))
    return turns


@given(HISTORIES)
@FEW
def test_r9_the_generation_obeyed_never_goes_back_and_forks_are_never_obeyed(
    history: list[tuple[Input, float]],
) -> None:
    obeyed: dict[int, str] = {}
    newest = 0
    for state, _, effects in live(history):
        assert state.generation >= newest
        newest = state.generation
        for effect in effects:
            if isinstance(effect, SendToWorker) and isinstance(effect.message, Assignment):
                place = effect.message
                assert obeyed.setdefault(place.generation, place.verdict_id) == place.verdict_id


@given(HISTORIES)
@FEW
def test_r1_no_worker_is_assigned_by_an_order_that_does_not_list_its_member(
    history: list[tuple[Input, float]],
) -> None:
    newest: Order | None = None
    for state, heard, effects in live(history):
        newest = state.order
        if isinstance(heard, OrderHeard) and heard.order.generation > state.generation:
            newest = heard.order
        for effect in effects:
            if isinstance(effect, SendToWorker) and isinstance(effect.message, Assignment):
                assert newest is not None
                assert newest.state == "run"
                assert newest.seat_of(state.me.incarnation) is not None
                assert effect.message.generation == newest.generation


@given(HISTORIES)
@FEW
def test_each_life_of_a_worker_is_started_once_and_only_the_living_are_told_or_killed(
    history: list[tuple[Input, float]],
) -> None:
    started: set[tuple[int, int]] = set()
    dead: set[tuple[int, int]] = set()
    for _, heard, effects in live(history):
        if isinstance(heard, WorkerDied):
            dead.add((heard.local_rank, heard.life))
        for effect in effects:
            match effect:
                case StartWorker(local_rank, life):
                    assert (local_rank, life) not in started
                    started.add((local_rank, life))
                    dead.discard((local_rank, life))  # it was foretold, not dead
                case SendToWorker(local_rank, life) | KillWorker(local_rank, life):
                    assert (local_rank, life) in started - dead


@given(HISTORIES)
@FEW
def test_reports_count_up_and_nothing_follows_the_end(
    history: list[tuple[Input, float]],
) -> None:
    sequence, ended = 0, False
    for _, _, effects in live([*history, (Terminate("SIGTERM"), 0.0)]):
        assert not (ended and effects)
        for effect in effects:
            if isinstance(effect, Report):
                assert effect.report.sequence > sequence
                sequence = effect.report.sequence
            ended = ended or isinstance(effect, Exit)


@given(HISTORIES)
@FEW
def test_r21_what_was_left_is_never_taken_back(history: list[tuple[Input, float]]) -> None:
    left = 0
    for state, _, _ in live(history):
        assert left <= state.left_generation < max(state.generation, 1)
        left = state.left_generation


@given(HISTORIES)
@FEW
def test_a_shard_is_told_durable_only_of_a_write_that_was_asked_for_and_each_write_is_told_once(
    history: list[tuple[Input, float]],
) -> None:
    asked: list[Snapshot] = []
    for _, heard, effects in live(history):
        told = [e for e in effects if isinstance(e, Publish) and isinstance(e.event, ShardPrepared)]
        if told:
            assert isinstance(heard, ShardWritten)
            assert len(told) == 1
            asked.remove(heard.snapshot)
        for effect in effects:
            if isinstance(effect, WriteShard):
                assert effect.snapshot not in asked
                asked.append(effect.snapshot)
            if isinstance(effect, Publish) and isinstance(effect.event, SaveFailed):
                failed = (effect.event.generation, effect.event.step, effect.event.kind)
                asked = [one for one in asked if (*one.version, one.kind) != failed]


@given(HISTORIES)
@FEW
def test_the_same_history_is_lived_the_same_way(history: list[tuple[Input, float]]) -> None:
    assert [turn[2] for turn in live(history)] == [turn[2] for turn in live(history)]
