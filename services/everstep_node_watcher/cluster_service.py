"""The loop of the cluster half: hear what Kubernetes says, tell it, suspect members by it.

PodGroups are not read: their phases and conditions contradict the pods (EC-64), and everything
that matters of a gang is in its pods, their nodes and its Job.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog
from everstep_bus.interface import Bus
from everstep_contract.base import Event
from everstep_contract.identity import JobKey
from everstep_contract.layout import JOBS
from everstep_contract.record import JobRecord
from everstep_kube.client import Json, KubeClient
from everstep_kube.followed import Followed
from everstep_kube.objects import (
    JOB_NAME_LABEL,
    NodeState,
    PodState,
    job_state,
    node_state,
    pod_state,
)
from everstep_kube.sightings import Absent, Heard, Present
from everstep_kube.watching import Follower
from everstep_kube.writing import JOBS_PATH, NODES_PATH, PODS_PATH
from everstep_runtime.clock import Moment

from everstep_node_watcher.cluster_decide import Doubt, opinion
from everstep_node_watcher.cluster_facts import fact, is_urgent, key_of
from everstep_node_watcher.cluster_telling import Telling
from everstep_node_watcher.cluster_view import ClusterView, State
from everstep_node_watcher.enact import Outbox
from everstep_node_watcher.metrics import (
    CLUSTER_STALE,
    NODE_FLAPS,
    NODES_IN_TROUBLE,
)
from everstep_node_watcher.model import Duty, Spoken
from everstep_node_watcher.suspicions import Voice, speak

TICK_SECONDS: Final = 0.5
TELL_SECONDS: Final = 0.1
WAITING_FACTS: Final = 100
"""So many facts may wait for the bus before those that nobody acts on wait their turn: those that
somebody does act on wait behind them for a fraction of a second, also while a list is told."""
FOLLOWED: Final[tuple[tuple[Followed, Callable[[Json], State | None]], ...]] = (
    (Followed(PODS_PATH, JOB_NAME_LABEL), pod_state),
    (Followed(NODES_PATH), node_state),
    (Followed(JOBS_PATH), job_state),
)

log = structlog.get_logger()


class ClusterWatcher:
    """What the cluster holds and what was said of it, and the way out for what is to be said."""

    def __init__(self, duty: Duty, outbox: Outbox) -> None:
        self._duty = duty
        self._voice = Voice(f"{duty.policy.witness}/kubernetes", duty.policy.reassert_seconds)
        self._outbox = outbox
        self._view = ClusterView()
        self._telling = Telling(duty.policy.cluster_fact_seconds)
        self._spoken = Spoken()
        self._stale = frozenset(followed.plural for followed, _ in FOLLOWED)  # nothing heard yet
        self._flaps_counted = 0

    def see(self, state: State, *, deleted: bool) -> None:
        """Take in an object's newest state and say what follows from it."""
        now = self._now()
        before = self._view.take(state, now.monotonic, deleted=deleted, policy=self._duty.policy)
        if deleted:
            self._tell_end(state, now)
        elif self._telling.news(before, state, now.monotonic, room=self._room() > 0):
            self._outbox.put((self._fact(state, now),))
        if (deleted or is_urgent(before, state)) and self._view.concerns(state):
            self.speak()

    def seat(self, job: JobKey, record: JobRecord | None) -> None:
        """Take in a job's newest record, or that it has none."""
        self._view.seat(job, record)
        self._spoken = self._spoken.only(self._view.is_seated)
        self.speak()

    def speak(self) -> None:
        """Suspect whom there is cause to suspect now."""
        now, policy = self._now(), self._duty.policy
        doubt = Doubt(self._stale, self._duty.silent.clients)
        found = opinion(self._view, self._spoken, doubt, policy, now.monotonic)
        self._spoken, facts = speak(found.causes, self._spoken, self._voice, now, found.held)
        self._outbox.put(facts)

    def tick(self, stale: frozenset[str]) -> None:
        """Let time pass; ``stale``: kinds of objects that the cluster has fallen silent about."""
        self._mark_stale(stale)
        now = self._now()
        self._view.well_again(now.monotonic, self._duty.policy)
        self._telling.tidy(now.monotonic)
        NODES_IN_TROUBLE.set(len(self._view.troubles))
        NODE_FLAPS.inc(self._view.flaps - self._flaps_counted)
        self._flaps_counted = self._view.flaps
        self.speak()

    def tell_due(self) -> None:
        """Tell what has waited for long enough, as far as there is room."""
        now = self._now()
        for key in self._telling.due(now.monotonic, self._room()):
            state = self._view.get(key)
            assert state is not None, "what is gone is not due"
            if self._telling.is_news(state, now.monotonic):
                self._outbox.put((self._fact(state, now),))

    async def follow_records(self, bus: Bus) -> None:
        """Know who is seated, until cancelled."""
        async for entry in bus.kv(JOBS).watch():
            self.seat(JobKey.from_token(entry.key), entry.value)

    async def tell(self) -> None:
        """Tell what is due, until cancelled."""
        while True:
            self.tell_due()
            await asyncio.sleep(TELL_SECONDS)

    async def repeat(self, followers: Mapping[str, Follower[State]]) -> None:
        """Let time pass, until cancelled."""
        while True:
            self.tick(frozenset(name for name, one in followers.items() if one.is_stale))
            await asyncio.sleep(TICK_SECONDS)

    def _tell_end(self, state: State, now: Moment) -> None:
        """That an object is gone, unless its successor of the same name was told of already."""
        succeeded = isinstance(state, NodeState) and state.name in self._view.nodes
        if not succeeded:
            self._telling.forget(key_of(state))
            self._outbox.put((self._fact(state, now, deleted=True),))

    def _fact(self, state: State, now: Moment, *, deleted: bool = False) -> Event:
        planned = isinstance(state, PodState) and state.uid in self._view.planned
        return fact(state, now, deleted=deleted, planned=planned)

    def _room(self) -> int:
        return max(WAITING_FACTS - self._outbox.waiting, 0)

    def _mark_stale(self, stale: frozenset[str]) -> None:
        if stale == self._stale:
            return
        for plural in stale - self._stale:
            log.error("the cluster is silent, its word is unknown", plural=plural)
        for plural in self._stale - stale:
            log.info("the cluster is heard", plural=plural)
        for plural in stale ^ self._stale:
            CLUSTER_STALE.labels(plural).set(plural in stale)
        self._stale = stale

    def _now(self) -> Moment:
        return Moment.of(self._duty.clock)


async def serve_cluster(bus: Bus, client: KubeClient, duty: Duty) -> None:
    """Watch the pods, nodes and Jobs of the cluster, until cancelled."""
    outbox = Outbox(bus, duty.clock, fresh_seconds=duty.policy.reassert_seconds)
    watcher = ClusterWatcher(duty, outbox)
    followers: dict[str, Follower[State]] = {
        followed.plural: Follower(client, followed, read, duty.clock) for followed, read in FOLLOWED
    }
    duty.readiness.expect(*followers)
    async with asyncio.TaskGroup() as group:
        group.create_task(outbox.publish())
        group.create_task(watcher.follow_records(bus))
        group.create_task(watcher.tell())
        group.create_task(watcher.repeat(followers))
        for plural, follower in followers.items():
            group.create_task(_follow(plural, follower, watcher, duty))


async def _follow(
    plural: str, follower: Follower[State], watcher: ClusterWatcher, duty: Duty
) -> None:
    async for sighting in follower.sightings():
        match sighting:
            case Present(state=state) | Absent(state=state):
                watcher.see(state, deleted=isinstance(sighting, Absent))
            case Heard():
                pass
        duty.readiness.prove(plural)
