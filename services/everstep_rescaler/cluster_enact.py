"""Makes the changes that a job's scene asks for; or only tells, where it observes.

Each write carries a uid or a resource version, so a repeat does nothing.
"""

from collections.abc import Awaitable, Callable
from typing import assert_never

from everstep_contract.record import NodeRecord
from everstep_kube.errors import RejectedError
from everstep_kube.writing import Written

from everstep_rescaler.cluster_audit import OBSERVING, Audit, Deed, Owner, PodVerb, advice
from everstep_rescaler.cluster_model import (
    Annotate,
    Change,
    DeletePod,
    Quarantine,
    Refrain,
    Scene,
)
from everstep_rescaler.cluster_nodes import NodeDesk
from everstep_rescaler.house import House


class ClusterDesk:
    """Writes to one cluster. Unless it may ``act`` it writes nothing and says what it would."""

    def __init__(self, house: House, nodes: NodeDesk) -> None:
        self._nodes = nodes
        self._api = house.api
        self._clock = house.clock
        self._teller = house.teller
        self._act = house.policy.act
        self._audit = Audit(house.bus, house.clock)

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
            case Refrain():
                await self._refrain(scene, change)
                return False
            case _:
                assert_never(change)

    async def _annotate(self, scene: Scene, change: Annotate) -> bool:
        job = scene.job
        assert job is not None, "decided for a Job that is there"
        deed = Deed(
            verb="annotate",
            target=job.job.name,
            uid=job.uid,
            incident=scene.record.incident,
            reason=f"generation {change.generation}",
            owner=Owner.of(scene.record),
        )
        return await self._attempt(deed, lambda: self._api.annotate_job(job, change.generation))

    async def _delete(self, scene: Scene, change: DeletePod) -> bool:
        lost = next(one for one in scene.lost if one.pod and one.pod.uid == change.pod_uid)
        pod = lost.pod
        assert pod is not None, "found by it"
        verb: PodVerb = "force_delete_pod" if change.force else "delete_pod"
        deed = Deed(verb, pod.name, pod.uid, lost.incident, change.reason, Owner.of(scene.record))
        made = await self._attempt(deed, lambda: self._api.delete_pod(pod, force=change.force))
        if made:
            self._teller.deleted(pod, lost.incident, change)
        return made

    async def _quarantine(self, scene: Scene, change: Quarantine) -> bool:
        node = next(one.node for one in scene.lost if one.node and one.node.name == change.node)
        record = scene.record
        wanted = NodeRecord(
            node=node.name,
            quarantined_by=change.incident,
            cause=change.cause,
            job=record.job,
            job_uid=record.job_uid,
            generation=record.generation,
            reason=change.reason,
            at=self._clock.now(),
        )
        return not await self._nodes.quarantine(node, wanted)

    async def _refrain(self, scene: Scene, change: Refrain) -> None:
        owner = Owner.of(scene.record)
        deed = Deed(change.verb, change.target, change.uid, change.incident, change.reason, owner)
        await self._audit.tell(deed, "refused", change.why)

    async def _attempt(self, deed: Deed, work: Callable[[], Awaitable[Written]]) -> bool:
        """Do the work if we may, and tell of it; whether it was done."""
        if not self._act:
            await self._audit.tell(deed, "refused", OBSERVING)
            return False
        try:
            outcome = await work()
        except RejectedError as error:
            await self._audit.tell(deed, "refused", advice(error))
            return False
        await self._audit.tell(deed, outcome)
        return True
