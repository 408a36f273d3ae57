"""What a follower of test pods told, folded, and checked to be a history that can have happened."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from everstep_kube.client import KubeClient
from everstep_kube.followed import Followed, WatchTiming
from everstep_kube.sightings import Absent, Heard, Present, Sighting
from everstep_kube.watching import Follower
from everstep_kube.writing import PODS_PATH
from everstep_runtime.clock import SystemClock
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import PODS
from everstep_simcluster.store import Ref
from prometheus_client import REGISTRY
from support.polling import collected
from support.simcluster import NAMESPACE, pod_manifest

LABEL = "everstep.test/followed"
VALUE = "everstep.test/value"
TIMING = WatchTiming(
    server_seconds=1,
    silence_seconds=1.5,
    relist_seconds=300.0,
    stale_seconds=3.0,
    longest_pause_seconds=0.5,
)


@dataclass(frozen=True)
class Pod:
    """A pod as the tests see it; ``value`` is what they change."""

    uid: str
    name: str
    value: str


def read_pod(found: dict[str, Any]) -> Pod:
    """A pod's state."""
    metadata = found["metadata"]
    value = (metadata.get("annotations") or {}).get(VALUE, "")
    return Pod(metadata["uid"], metadata["name"], value)


class Seen:
    """What a follower told."""

    def __init__(self, follower: Follower[Pod], sightings: list[Sighting[Pod]]) -> None:
        self.follower = follower
        self.sightings = sightings
        self.dead_may_return = False

    @property
    def present(self) -> set[str]:
        """Names of the pods that are there as far as it was told."""
        return {pod.name for pod in self.states}

    @property
    def states(self) -> set[Pod]:
        """The pods that are there as far as it was told."""
        return set(self._folded().values())

    def told(self, name: str, kind: type[Present[Any]] | type[Absent[Any]]) -> int:
        """How often a pod was told to be there, or gone."""
        return sum(
            not isinstance(one, Heard) and isinstance(one, kind) and one.state.name == name
            for one in self.sightings
        )

    @property
    def heard(self) -> int:
        """How often it was told that the server had answered."""
        return sum(isinstance(one, Heard) for one in self.sightings)

    def _folded(self) -> dict[str, Pod]:
        """By uid. A pod ends once, after it was there, and no two of one name are there at once."""
        there: dict[str, Pod] = {}
        ended: set[str] = set()
        for one in self.sightings:
            if isinstance(one, Present):
                back = one.state.uid in ended and not self.dead_may_return
                assert not back, f"told again after its end: {one}"
                assert there.get(one.state.uid) != one.state, f"told twice: {one}"
                namesakes = {pod.uid for pod in there.values() if pod.name == one.state.name}
                assert namesakes <= {one.state.uid}, f"two of one name: {one}"
                there[one.state.uid] = one.state
            elif isinstance(one, Absent):
                assert one.state.uid in there, f"an end of what was not there: {one}"
                ended.add(one.state.uid)
                del there[one.state.uid]
        return there


@asynccontextmanager
async def following(
    client: KubeClient, timing: WatchTiming = TIMING, selector: str = LABEL
) -> AsyncIterator[Seen]:
    """Follow pods while the context is open."""
    follower = Follower(client, Followed(PODS_PATH, selector), read_pod, SystemClock(), timing)
    async with collected(follower.sightings()) as sightings:
        yield Seen(follower, sightings)


def create(cluster: Cluster, name: str, value: str = "") -> None:
    """Create a pod that is followed and never runs."""
    manifest = pod_manifest(name, ["sleep", "1000"], nodeName="nowhere")
    manifest["metadata"]["labels"] = {LABEL: "yes"}
    manifest["metadata"]["annotations"] = {VALUE: value}
    cluster.objects.create(PODS, NAMESPACE, manifest)


def change(cluster: Cluster, name: str, value: str) -> None:
    """Change a pod."""
    patch = Patch(MERGE_PATCH, {"metadata": {"annotations": {VALUE: value}}})
    cluster.objects.patch(PODS, Ref(NAMESPACE, name), patch)


def label(cluster: Cluster, name: str, value: str | None) -> None:
    """Give a pod the label by which it is followed, or take it away."""
    patch = Patch(MERGE_PATCH, {"metadata": {"labels": {LABEL: value}}})
    cluster.objects.patch(PODS, Ref(NAMESPACE, name), patch)


def delete(cluster: Cluster, name: str) -> None:
    """Delete a pod at once."""
    cluster.objects.store.remove(PODS, Ref(NAMESPACE, name))


class Count:
    """How far a counter has moved since this was made."""

    def __init__(self, metric: str, **labels: str) -> None:
        self._metric, self._labels = metric, labels
        self._before = self._value()

    @property
    def moved(self) -> float:
        """How far it has moved."""
        return self._value() - self._before

    def _value(self) -> float:
        return REGISTRY.get_sample_value(self._metric, self._labels) or 0.0
