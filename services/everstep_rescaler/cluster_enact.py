"""Makes changes in the cluster, records them and tells of them; or only tells, where it observes.

Each write carries a uid or a resource version, so a repeat does nothing, and it is recorded
after it was made: a crash in between repeats it and forgets nothing (R25).
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final, Literal, assert_never

import structlog
from everstep_bus.errors import RevisionMismatchError
from everstep_bus.interface import Bus
from everstep_contract.envelope import Cause
from everstep_contract.facts.job import ClusterWritten
from everstep_contract.facts.node import NodeQuarantined, NodeReleased
from everstep_contract.layout import NODES
from everstep_contract.names import encode_name
from everstep_contract.record import JobRecord, NodeRecord
from everstep_kube.errors import RejectedError
from everstep_kube.objects import NodeState
from everstep_kube.writing import ClusterApi, Written
from everstep_runtime.clock import Clock

from everstep_rescaler.cluster_model import (
    Annotate,
    Change,
    DeletePod,
    Quarantine,
    Refrain,
    Release,
    Scene,
)
from everstep_rescaler.metrics import WRITES

RECORD_TRIES: Final = 5
DETAIL_CHARACTERS: Final = 500
Verb = Literal["cordon", "taint", "release", "delete_pod", "force_delete_pod", "annotate"]

log = structlog.get_logger()


class ClusterDesk:
    """Writes to one cluster. Unless it may ``act`` it writes nothing and says what it would."""

    def __init__(self, bus: Bus, api: ClusterApi, clock: Clock, *, act: bool) -> None:
        self._bus = bus
        self._api = api
        self._clock = clock
        self._act = act

    async def make(self, scene: Scene, change: Change) -> bool:
        """Make a change that is due in ``scene``; whether it was made.

        Raises:
            BusError: It was made, but is not known to be recorded: look again.
            KubeError: It is not known to have been made: look again.
        """
        match change:
            case Annotate():
                return await self._annotate(scene, change)
            case Quarantine():
                return await self._quarantine(scene, change)
            case DeletePod():
                return await self._delete(scene, change)
            case Refrain(what=what, why=why):
                log.warning("refrained", job=str(scene.record.job), what=what, why=why)
                return False
            case _:
                assert_never(change)

    async def _annotate(self, scene: Scene, change: Annotate) -> bool:
        job = scene.job
        assert job is not None, "decided for a Job that is there"
        detail = f"generation {change.generation}"
        written = _written(scene.record, "annotate", job.job.name, job.uid, detail)
        return await self._attempt(
            scene, (written,), lambda: self._api.annotate_job(job, change.generation)
        )

    async def _delete(self, scene: Scene, change: DeletePod) -> bool:
        pod = next(one.pod for one in scene.lost if one.pod and one.pod.uid == change.pod_uid)
        verb: Verb = "force_delete_pod" if change.force else "delete_pod"
        written = _written(scene.record, verb, pod.name, pod.uid, change.reason)
        return await self._attempt(
            scene, (written,), lambda: self._api.delete_pod(pod, force=change.force)
        )

    async def _quarantine(self, scene: Scene, change: Quarantine) -> bool:
        node = next(one.node for one in scene.lost if one.node and one.node.name == change.node)
        record = _quarantined(scene.record, node, change, self._clock.now())
        verbs: tuple[Verb, ...] = ("taint", "cordon") if record.cordoned_by_us else ("taint",)
        written = [_written(scene.record, verb, node.name, "", change.cause) for verb in verbs]

        async def work() -> Written:
            if node.quarantined_by is None:
                await self._api.quarantine(node, change.incident)
            await self._record(record)
            await self._bus.publish(
                NodeQuarantined(
                    at=record.at, node=node.name, incident=change.incident, reason=change.cause
                ),
                cause=Cause(correlation_id=change.incident),
            )
            return "done" if node.quarantined_by is None else "already"

        return await self._attempt(scene, written, work)

    async def release(self, known: NodeRecord, release: Release) -> bool:
        """End a quarantine, and undo only what Everstep had done; as `make`."""
        if not self._act:
            return False
        node = await self._api.node(known.node)
        if node is not None and (node.quarantined_by or node.cordoned_by):
            await self._api.release(node)
        now, incident = self._clock.now(), known.quarantined_by or ""
        ended = {"quarantined_by": None, "released_from": incident, "at": now}
        undone = {"cordoned_by_us": False, "tainted_by_us": False, "reason": release.reason}
        await self._record(known.model_copy(update={**ended, **undone}))
        told = NodeReleased(at=now, node=known.node, incident=incident, reason=release.reason)
        await self._bus.publish(told, cause=Cause(correlation_id=incident))
        if known.job is not None:
            written = ClusterWritten(
                at=now,
                job=known.job,
                job_uid=known.job_uid,
                verb="release",
                target=known.node,
                generation=known.generation,
                outcome="done",
                detail=release.reason,
            )
            await self._bus.publish(written, cause=Cause(correlation_id=incident))
        WRITES.labels("release", "done").inc()
        log.info("node released", node=known.node, incident=incident, why=release.reason)
        return True

    async def _record(self, record: NodeRecord) -> None:
        """Store what was done; nobody but us writes it, so the newest wins."""
        nodes, key = self._bus.kv(NODES), encode_name(record.node)
        for _ in range(RECORD_TRIES):
            entry = await nodes.get(key)
            try:
                await nodes.put(key, record, expected=entry.revision if entry else 0)
            except RevisionMismatchError:
                continue
            return
        raise RevisionMismatchError(key=key, expected=0)

    async def _attempt(
        self,
        scene: Scene,
        told: Sequence[ClusterWritten],
        work: Callable[[], Awaitable[Written]],
    ) -> bool:
        """Do the work if we may, and tell of each part of it; whether it was done."""
        outcome: Literal["done", "already", "refused"] = "refused"
        why = {"detail": "observe mode"}
        if self._act:
            try:
                outcome, why = await work(), {}
            except RejectedError as error:
                why = {"detail": str(error)[:DETAIL_CHARACTERS]}
        for fact in told:
            fact = fact.model_copy(update={"at": self._clock.now(), "outcome": outcome, **why})
            WRITES.labels(fact.verb, outcome).inc()
            log.info(
                "cluster written" if outcome != "refused" else "cluster not written",
                job=str(fact.job),
                verb=fact.verb,
                target=fact.target,
                outcome=outcome,
                detail=fact.detail,
            )
            await self._bus.publish(fact, cause=Cause(correlation_id=scene.record.incident))
        return outcome != "refused"


def _written(
    record: JobRecord, verb: Verb, target: str, target_uid: str, detail: str
) -> ClusterWritten:
    """The audit of a write that is about to be tried."""
    return ClusterWritten(
        at=record.decided_at,
        job=record.job,
        job_uid=record.job_uid,
        verb=verb,
        target=target,
        target_uid=target_uid,
        generation=record.generation,
        outcome="refused",
        detail=detail,
    )


def _quarantined(
    record: JobRecord, node: NodeState, change: Quarantine, now: datetime
) -> NodeRecord:
    """What is remembered of a quarantine. A cordon that was there before it is not ours."""
    return NodeRecord(
        node=node.name,
        boot_id=node.boot_id,
        quarantined_by=change.incident,
        cause=change.cause,
        cordoned_by_us=bool(node.cordoned_by) or not node.unschedulable,
        tainted_by_us=True,
        job=record.job,
        job_uid=record.job_uid,
        generation=record.generation,
        reason=change.cause,
        at=now,
    )
