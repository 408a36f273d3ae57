"""Quarantines and releases nodes, and records what was done, so that only that is undone (R25).

Each write carries the version that was read, and is recorded after it was made: a crash in
between repeats it, which then finds it made, and forgets nothing.
"""

from datetime import datetime
from typing import Final

import structlog
from everstep_bus.errors import RevisionMismatchError
from everstep_contract.envelope import Cause
from everstep_contract.facts.node import NodeQuarantined, NodeReleased
from everstep_contract.layout import NODES
from everstep_contract.names import encode_name
from everstep_contract.record import MAX_RELEASED, NodeRecord, QuarantineCause
from everstep_kube.errors import RejectedError
from everstep_kube.objects import NodeState
from everstep_kube.writing import Mark, Written

from everstep_rescaler.cluster_audit import OBSERVING, Audit, Deed, NodeVerb, Owner, advice
from everstep_rescaler.cluster_model import Release
from everstep_rescaler.house import House

RECORD_TRIES: Final = 5
PEOPLE_ASKED: Final[frozenset[QuarantineCause]] = frozenset({"operator", "maintenance"})

log = structlog.get_logger()


class NodeDesk:
    """Writes to nodes. Unless it may ``act`` it writes nothing and says what it would."""

    def __init__(self, house: House) -> None:
        self._bus = house.bus
        self._api = house.api
        self._clock = house.clock
        self._teller = house.teller
        self._act = house.policy.act
        self._audit = Audit(house.bus, house.clock)

    async def known(self, name: str) -> NodeRecord | None:
        """What Everstep did to the node."""
        entry = await self._bus.kv(NODES).get(encode_name(name))
        return entry.value if entry else None

    async def quarantine(self, node: NodeState, wanted: NodeRecord) -> str:
        """Bring the node, as it was read, into the quarantine that ``wanted`` describes.

        Returns:
            Why it was refused; empty when it is done, or was already.

        Raises:
            BusError: It was made, but is not known to be recorded: look again.
            KubeError: It is not known to have been made: look again.
        """
        before = await self.known(node.name)
        wanted = as_recorded(wanted, before, node, self._clock.now())
        verbs: tuple[NodeVerb, ...] = ("taint", "cordon") if wanted.cordoned_by_us else ("taint",)
        deeds = [_deed(wanted, verb, node.uid) for verb in verbs]
        if not self._act:
            return await self._refuse(deeds, OBSERVING)
        try:
            outcome = await self._mark(node, wanted, before)
        except RejectedError as error:
            return await self._refuse(deeds, advice(error))
        await self._record(wanted)
        told = NodeQuarantined(
            at=wanted.at,
            node=node.name,
            incident=wanted.quarantined_by or "",
            reason=wanted.reason,
            by=wanted.by,
        )
        await self._bus.publish(told, cause=Cause(correlation_id=wanted.quarantined_by))
        self._teller.quarantined(node, wanted)
        for deed in deeds:
            await self._audit.tell(deed, outcome)
        return ""

    async def _mark(
        self, node: NodeState, wanted: NodeRecord, before: NodeRecord | None
    ) -> Written:
        renewed = before is not None and before.quarantined_by == wanted.quarantined_by
        whole = node.quarantined_by is not None and node.unschedulable
        if whole and not renewed:
            return "already"  # made by us before a crash, or by a person's hand
        whose = str(wanted.job) if wanted.job else wanted.by
        incident = wanted.quarantined_by or ""
        mark = Mark(incident, wanted.reason, wanted.at.isoformat(), whose)
        await self._api.quarantine(node, mark)
        return "done"

    async def note_deleted(self, known: NodeRecord) -> None:
        """The node is gone, and its machine stays in mind."""
        if known.deleted or not self._act:
            return
        await self._record(known.model_copy(update={"deleted": True}))
        log.info("quarantined node deleted", node=known.node, machines=known.machines)

    async def note_drain_over(self, drain: NodeRecord) -> None:
        """Its time is over, for whoever looks at it next as well: clocks are not compared (R27)."""
        if drain.drain_seconds > 0 and await self.known(drain.node) == drain:
            await self._record(drain.model_copy(update={"drain_seconds": 0.0}))

    async def release(self, known: NodeRecord, release: Release) -> str:
        """End a quarantine, and undo only what Everstep had done; as `quarantine`."""
        node = await self._api.node(known.node)
        deed = _deed(known, "release", node.uid if node else "", release)
        if not self._act:
            return await self._refuse([deed], OBSERVING)
        ours = node is not None and (node.quarantined_by is not None or node.cordoned_by)
        if node is not None and ours:
            try:
                await self._api.release(node)
            except RejectedError as error:
                return await self._refuse([deed], advice(error))
        now = self._clock.now()
        await self._record(released(known, release, now))
        incident = known.quarantined_by or "unknown"
        told = NodeReleased(
            at=now, node=known.node, incident=incident, reason=release.reason, by=release.by
        )
        await self._bus.publish(told, cause=Cause(correlation_id=incident))
        if node is not None:
            self._teller.released(node, incident, release.reason)
        await self._audit.tell(deed, "done" if ours else "already")
        return ""

    async def _refuse(self, deeds: list[Deed], why: str) -> str:
        for deed in deeds:
            await self._audit.tell(deed, "refused", why)
        return why

    async def _record(self, record: NodeRecord) -> None:
        """Store what was done; nobody but the leader writes it, so the newest wins."""
        nodes, key = self._bus.kv(NODES), encode_name(record.node)
        for _ in range(RECORD_TRIES):
            entry = await nodes.get(key)
            try:
                await nodes.put(key, record, expected=entry.revision if entry else 0)
            except RevisionMismatchError:
                continue
            return
        raise RevisionMismatchError(key=key, expected=0)


def as_recorded(
    wanted: NodeRecord, before: NodeRecord | None, node: NodeState, now: datetime
) -> NodeRecord:
    """What is remembered of a quarantine. A cordon that was there before it is not ours.

    Whose quarantine was ended before is kept: only a new fault begins another (EC-34).
    """
    ended = before.model_dump(include={"released_from", "released_before"}) if before else {}
    cordon = {"cordoned_by_us": bool(node.cordoned_by) or not node.unschedulable}
    whose = {"node_uid": node.uid, "boot_id": node.boot_id, "machines": node.machines}
    update = {**whose, "tainted_by_us": True, "deleted": False, "at": now, **cordon}
    return wanted.model_copy(update=update | ended)


def released(known: NodeRecord, release: Release, now: datetime) -> NodeRecord:
    """What is remembered of a quarantine that has ended."""
    former = known.released_from
    before = known.released_before if former is None else (former, *known.released_before)
    return known.model_copy(
        update={
            "quarantined_by": None,
            "released_from": known.quarantined_by,
            "released_before": before[:MAX_RELEASED],
            "cordoned_by_us": False,
            "tainted_by_us": False,
            "drain_seconds": 0.0,
            "deleted": False,
            "reason": release.reason,
            "by": release.by,
            "at": now,
        }
    )


def _deed(record: NodeRecord, verb: NodeVerb, uid: str, release: Release | None = None) -> Deed:
    owner = Owner.of_node(record) if record.cause not in PEOPLE_ASKED else None
    return Deed(
        verb=verb,
        target=record.node,
        uid=uid,
        incident=record.quarantined_by,
        reason=release.reason if release else record.reason,
        owner=owner,
        by=(release.by if release else record.by) or ("" if owner else record.by),
    )
