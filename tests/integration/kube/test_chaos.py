"""Any sequence of outages while objects come, change and go: what is told can have happened.

A failure prints its seed; the same seed makes the same sequence of changes and outages.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from everstep_kube import access
from everstep_kube import client as tuning
from everstep_kube.client import connect
from everstep_kube.sightings import Absent, Present
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.misbehaviour import Act, Drop, Hang, Refuse, Rule
from everstep_simcluster.resources import PODS
from everstep_simcluster.settings import ClusterSettings
from everstep_simcluster.store import Change
from support.following import LABEL, TIMING, Pod, Seen, change, create, delete, following, label
from support.following import read_pod as read
from support.odd_server import write_kubeconfig
from support.polling import eventually
from support.simcluster import NAMESPACE

SETTINGS = ClusterSettings(nodes=0, networks="none", namespaces=(NAMESPACE,), bookmark_seconds=0.3)
NAMES = tuple(f"pod-{index}" for index in range(7))
STEPS = 60
OFTEN = replace(TIMING, relist_seconds=0.4)
FAILURES: tuple[Act, ...] = (
    *(Drop(), Hang(0.5), Refuse(410), Refuse(429, retry_after_seconds=0), Refuse(500)),
    *(Refuse(503), Refuse(504), Refuse(401), Refuse(403)),
)
WHERE = ("watch=true", "limit=2", "limit=1$", "continue=", "/pods/pod-", "/pods")


class History:
    """What truly happened to the pods, written down by the store itself."""

    def __init__(self, cluster: Cluster) -> None:
        self.states: dict[str, list[Pod]] = {}
        self.ended: set[str] = set()
        self._cluster = cluster
        cluster.objects.store.listen(self._hear)

    @property
    def present(self) -> set[str]:
        """Uids of the pods that there are."""
        return {pod["metadata"]["uid"] for pod in self._cluster.pods(NAMESPACE)}

    def followed(self, selector: str) -> set[Pod]:
        """The pods that there are, or those of them with the label, as they are."""
        pods = self._cluster.pods(NAMESPACE)
        labels = [pod["metadata"].get("labels") or {} for pod in pods]
        chosen = [not selector or selector in one for one in labels]
        return {read(pod) for pod, is_chosen in zip(pods, chosen, strict=True) if is_chosen}

    def _hear(self, change: Change) -> None:
        if change.resource is PODS:
            pod = read(change.object)
            self.states.setdefault(pod.uid, []).append(pod)
            if change.type == "DELETED":
                self.ended.add(pod.uid)


class Monkey:
    """Changes pods and hurts their API server."""

    def __init__(self, cluster: Cluster, token: Path, chance: random.Random) -> None:
        self._cluster = cluster
        self._token = token
        self._chance = chance
        self._count = 0
        self._outages: tuple[Callable[[], Awaitable[None]], ...] = (
            *(self._fail, self._fail, self._fail, self._go_deaf, self._forget),
            *(self._restart, self._terminate, self._be_away, self._rotate),
        )

    async def step(self) -> None:
        """Do something to the pods, and now and then something to the server."""
        name = self._chance.choice(NAMES)
        existing = {pod["metadata"]["name"] for pod in self._cluster.pods(NAMESPACE)}
        self._count += 1
        if name not in existing:
            create(self._cluster, name, str(self._count))
        else:
            match self._chance.randrange(6):
                case 0:
                    delete(self._cluster, name)
                case 1:
                    delete(self._cluster, name)
                    create(self._cluster, name, str(self._count))
                case 2:
                    label(self._cluster, name, self._chance.choice((None, "yes")))
                case _:
                    change(self._cluster, name, str(self._count))
        if self._chance.random() < 0.3:
            await self._chance.choice(self._outages)()
        await asyncio.sleep(self._chance.choice((0.0, 0.01, 0.05)))

    async def _fail(self) -> None:
        act, where = self._chance.choice(FAILURES), self._chance.choice(WHERE)
        self._cluster.api.misbehaviour.add(
            Rule(act, path=where, times=self._chance.randint(1, 3), user_agent="chaos")
        )

    async def _go_deaf(self) -> None:
        self._cluster.api.blackhole_watches()

    async def _forget(self) -> None:
        self._cluster.api.expire_history()

    async def _restart(self) -> None:
        await self._cluster.api.restart()

    async def _terminate(self) -> None:
        await self._cluster.api.terminate(linger_seconds=0.2)
        self._cluster.objects.store.forget_history(jump=3)
        await self._cluster.api.start()

    async def _be_away(self) -> None:
        await self._cluster.api.kill()
        delete_any = self._chance.choice(NAMES)
        if any(pod["metadata"]["name"] == delete_any for pod in self._cluster.pods(NAMESPACE)):
            delete(self._cluster, delete_any)
        await self._cluster.api.start()

    async def _rotate(self) -> None:
        token = f"token-{self._count}"
        self._cluster.api.tokens.issue(token, leeway_seconds=0)
        self._token.write_text(token)


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("everstep_kube.watching.PAGE_OBJECTS", 2)
    monkeypatch.setattr("everstep_kube.watching.BUSY_LISTS", 1000)
    monkeypatch.setattr(tuning, "CONNECT_SECONDS", 0.2)
    monkeypatch.setattr(tuning, "REQUEST_SECONDS", 0.3)
    monkeypatch.setattr(tuning, "FIRST_BACKOFF_SECONDS", 0.01)
    monkeypatch.setattr(access, "SPACING_SECONDS", 0.0)


async def live(seed: int, folder: Path) -> None:
    """One follower's life under one sequence of outages, and the judgement of it."""
    async with AsyncExitStack() as stack:
        cluster = await stack.enter_async_context(Cluster(SETTINGS))
        token = folder / f"token-{seed}"
        token.write_text("token")
        cluster.api.tokens.issue("token")
        kubeconfig = write_kubeconfig(folder / f"config-{seed}", cluster.url, tokenFile=str(token))
        client = await stack.enter_async_context(connect(kubeconfig, user_agent="chaos"))
        history = History(cluster)
        monkey = Monkey(cluster, token, random.Random(seed))
        selector = LABEL if seed % 2 else ""
        seen = await stack.enter_async_context(following(client, OFTEN, selector))
        for _ in range(STEPS):
            await monkey.step()
        cluster.api.misbehaviour.clear()
        create(cluster, "the-end")
        cluster.api.expire_history()  # so that the ends of what had left the selector are told
        await eventually(
            lambda: settled(seen, history, selector), what=f"seed {seed}: it never settled"
        )
        judge(seed, seen, history)


def settled(seen: Seen, history: History, selector: str) -> bool:
    """Everything followed is told as it is, and nothing is left that has ended."""
    told = seen.states
    return history.followed(selector) <= told and {pod.uid for pod in told} <= history.present


def judge(seed: int, seen: Seen, history: History) -> None:
    """What was told of each pod happened, in that order, and its end no sooner than it did."""
    position: dict[str, int] = {}
    for one in seen.sightings:
        if isinstance(one, Present):
            states = history.states[one.state.uid]
            place = states.index(one.state)
            assert place >= position.get(one.state.uid, 0), f"seed {seed}: back in time: {one}"
            position[one.state.uid] = place
        elif isinstance(one, Absent):
            assert one.state.uid in history.ended, f"seed {seed}: it lives: {one}"


@pytest.mark.parametrize(
    "seeds",
    [range(4), *(pytest.param(range(n, n + 10), marks=pytest.mark.slow) for n in range(4, 44, 10))],
)
async def test_ec02_whatever_the_server_does_what_is_told_happened_and_nothing_is_missing(
    seeds: range, tmp_path: Path
) -> None:
    async with asyncio.TaskGroup() as group:
        for seed in seeds:
            group.create_task(live(seed, tmp_path))
