"""Does what was done in a recorded timeline and compares what follows."""

import threading
from contextlib import suppress
from typing import Any

import urllib3
from support.conformance.api import PATIENCE_SECONDS, eventually
from support.conformance.fake_nodes import FakeNodes
from support.conformance.ground import Ground
from support.conformance.kubelet import Kubelet
from support.conformance.timelines import COUNTS, Deed, Look, Rest, Step
from support.conformance.volcano import VolcanoJob

FOREIGN_UID = "00000000-0000-4000-8000-000000000000"
MIN_AVAILABLE = 6
_WATCH_LAG_SECONDS = 5.0


class Player:
    """Plays the steps of a timeline on one job of its own."""

    def __init__(self, ground: Ground, nodes: FakeNodes, kubelet: Kubelet) -> None:
        self._ground = ground
        self._nodes = nodes
        self._kubelet = kubelet
        self._job: VolcanoJob
        self._phases: _Phases
        self._place: dict[str, str] = {}
        self._before: Rest | None = None
        self._uids: dict[str, str] = {}

    def play(self, steps: list[Step], **job: Any) -> None:
        """Start the recorded job, then rest, compare and act, step by step."""
        first = next(step.rest for step in steps if step.rest is not None)
        self._job = VolcanoJob(
            self._ground, replicas=len(first.look.pods), min_available=MIN_AVAILABLE, **job
        )
        self._phases = _Phases(self._job)
        for step in steps:
            if step.rest is not None:
                self._come_to_rest(step.rest)
            if step.deed is not None:
                self._do(step.deed)

    def close(self) -> None:
        """Delete the job."""
        self._kubelet.revive()
        self._phases.close()
        self._job.close()

    def _come_to_rest(self, recorded: Rest) -> None:
        def seen() -> bool:
            self._seen = self._look()
            return self._seen == recorded.look

        try:
            eventually(seen, "", within_seconds=PATIENCE_SECONDS)
        except AssertionError:
            raise AssertionError(f"recorded {recorded.look}\nbut here {self._seen}") from None
        self._phases.expect(recorded.phases)
        uids = self._job.uids()
        if self._before is not None:
            assert _kept(self._uids, uids) == _kept(self._before.uids, recorded.uids)
            gained = recorded.conditions - self._before.conditions
            assert gained <= self._conditions()
        self._before, self._uids = recorded, uids

    def _conditions(self) -> set[str]:
        """What the PodGroup has been told; nothing where there is none."""
        groups = self._job.groups()
        return {one["type"] for g in groups for one in g.get("status", {}).get("conditions") or ()}

    def _look(self) -> Look:
        status = self._job.status()
        return Look(
            phase=status.get("state", {}).get("phase", ""),
            counts={word: status[word] for word in COUNTS if status.get(word)},
            retries=status.get("retryCount", 0),
            pods={
                name: "Terminating"
                if "deletionTimestamp" in pod["metadata"]
                else pod["status"]["phase"]
                for name, pod in self._job.pods().items()
            },
            group=self._job.group_phase(),
        )

    def _do(self, deed: Deed) -> None:
        match deed.words:
            case "delete pod":
                index = int(deed.about.rpartition("-")[2])
                self._job.delete_pod(index, grace_seconds=deed.option)
            case "cordon":
                self._nodes.cordon(self._node(deed))
            case "uncordon":
                self._nodes.uncordon(self._node(deed))
                self._kubelet.revive(self._node(deed))  # it was repaired meanwhile
            case "host dies":
                self._kubelet.die(self._node(deed))
            case "container exits":
                self._kubelet.exit(deed.about, deed.option)
            case "command":
                self._job.wait_phase(deed.job_phase)
                self._job.command(deed.about)
            case "command with a foreign uid":
                self._job.command("RestartJob", uid=FOREIGN_UID)
            case "delete job":
                self._job.close()
            case _:
                raise AssertionError(f"no such deed: {deed.words}")

    def _node(self, deed: Deed) -> str:
        """The node that plays the recorded one: where the pod that lay there lies here."""
        if deed.about not in self._place:
            pod = self._job.pods()[deed.pod_there]
            self._place[deed.about] = pod["spec"]["nodeName"]
        return self._place[deed.about]


def _kept(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] == after.get(name)}


class _Phases:
    """The phases that a job goes through, by a watch."""

    def __init__(self, job: VolcanoJob) -> None:
        self._job = job
        self._heard: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def expect(self, phases: tuple[str, ...]) -> None:
        """These, since the last time; the watch may tell them later than a read does."""
        with suppress(AssertionError):
            eventually(lambda: tuple(self._heard) == phases, "", within_seconds=_WATCH_LAG_SECONDS)
        assert tuple(self._heard) == phases
        self._heard[:-1] = []

    def close(self) -> None:
        """Hear no more."""
        self._stop.set()

    def _listen(self) -> None:
        collection, _, name = self._job.path.rpartition("/")
        query = {"fieldSelector": f"metadata.name={name}", "timeoutSeconds": "300"}
        with self._job.api.watch(collection, **query) as watch:
            while not self._stop.is_set():
                try:
                    event = watch.next(300)
                except (AssertionError, urllib3.exceptions.HTTPError):
                    return
                phase = (event["object"].get("status") or {}).get("state", {}).get("phase", "")
                if phase and self._heard[-1:] != [phase]:
                    self._heard.append(phase)
