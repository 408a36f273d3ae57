"""The loop of the cluster half: hear what Kubernetes says, tell it, suspect members by it."""

import asyncio
from collections.abc import Callable
from typing import Final

from everstep_bus.interface import Bus
from everstep_contract.identity import JobKey
from everstep_contract.layout import JOBS
from everstep_kube.client import Json, KubeClient
from everstep_kube.followed import Followed
from everstep_kube.objects import JOB_NAME_LABEL, job_state, node_state, pod_state
from everstep_kube.sightings import Absent, Heard, Present
from everstep_kube.watching import Follower
from everstep_kube.writing import JOBS_PATH, NODES_PATH, PODS_PATH
from everstep_runtime.clock import Clock, Moment
from everstep_runtime.health import Readiness

from everstep_node_watcher.cluster_decide import ClusterView, State, causes, observe, seated
from everstep_node_watcher.enact import Outbox
from everstep_node_watcher.model import Policy, Spoken
from everstep_node_watcher.suspicions import Voice, speak

TICK_SECONDS: Final = 0.5
FOLLOWED: Final[tuple[tuple[Followed, Callable[[Json], State | None]], ...]] = (
    (Followed(PODS_PATH, JOB_NAME_LABEL), pod_state),
    (Followed(NODES_PATH), node_state),
    (Followed(JOBS_PATH), job_state),
)


class ClusterWatcher:
    """What the cluster holds and what was said of it, and the way out for what is to be said."""

    def __init__(self, policy: Policy, clock: Clock, outbox: Outbox) -> None:
        self._voice = Voice(f"{policy.witness}/kubernetes", policy.reassert_seconds)
        self._clock = clock
        self._outbox = outbox
        self._view = ClusterView()
        self._spoken = Spoken()

    def see(self, state: State, *, deleted: bool) -> None:
        """Take in an object's newest state and say what follows from it."""
        self._view, fact = observe(self._view, state, self._now(), deleted=deleted)
        if fact is not None:
            self._outbox.put((fact,))
            self.speak()

    def speak(self) -> None:
        """Suspect whom there is cause to suspect now."""
        found = causes(self._view)
        self._spoken, facts = speak(found, self._spoken, self._voice, self._now())
        self._outbox.put(facts)

    async def follow_records(self, bus: Bus) -> None:
        """Know who is seated, until cancelled."""
        async for entry in bus.kv(JOBS).watch():
            self._view = seated(self._view, JobKey.from_token(entry.key), entry.value)
            self._spoken = self._spoken.only(self._view.is_seated)
            self.speak()

    async def repeat(self) -> None:
        """Let time pass, until cancelled."""
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self.speak()

    def _now(self) -> Moment:
        return Moment.of(self._clock)


async def serve_cluster(
    bus: Bus, client: KubeClient, policy: Policy, clock: Clock, readiness: Readiness
) -> None:
    """Watch the pods, nodes and Jobs of the cluster, until cancelled."""
    outbox = Outbox(bus, clock, fresh_seconds=policy.reassert_seconds)
    watcher = ClusterWatcher(policy, clock, outbox)
    async with asyncio.TaskGroup() as group:
        group.create_task(outbox.publish())
        group.create_task(watcher.follow_records(bus))
        group.create_task(watcher.repeat())
        for followed, read in FOLLOWED:
            readiness.expect(followed.plural)
            follower: Follower[State] = Follower(client, followed, read, clock)
            group.create_task(_follow(follower, watcher, readiness))


async def _follow(follower: Follower[State], watcher: ClusterWatcher, readiness: Readiness) -> None:
    plural = follower.followed.plural
    async for sighting in follower.sightings():
        match sighting:
            case Present(state=state):
                watcher.see(state, deleted=False)
            case Absent(state=state):
                watcher.see(state, deleted=True)
            case Heard():
                pass
        readiness.prove(plural)
