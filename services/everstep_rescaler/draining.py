"""Evicts members from nodes under maintenance, by the eviction API: disruption budgets are obeyed.

An agent leaves by itself when its pod is told to end, so the others lose no step (EC-54).
"""

from typing import Final

import structlog
from everstep_bus.errors import BusError
from everstep_contract.identity import Member
from everstep_contract.layout import JOBS
from everstep_contract.record import JobRecord, NodeRecord
from everstep_kube.errors import KubeError, RejectedError, ThrottledError

from everstep_rescaler.cluster_audit import OBSERVING, Audit, Deed, Owner, advice
from everstep_rescaler.cluster_nodes import NodeDesk
from everstep_rescaler.draining_decide import Evict, Seated, Wait, decide_drain
from everstep_rescaler.house import House

OVER: Final = "more time, its own is over: `everstep drain` again, or release the node"

log = structlog.get_logger()


class DrainDesk:
    """Goes on with every drain that somebody asked for and nobody has ended."""

    def __init__(self, house: House, nodes: NodeDesk) -> None:
        self._bus = house.bus
        self._api = house.api
        self._clock = house.clock
        self._teller = house.teller
        self._policy = house.policy
        self._nodes = nodes
        self._audit = Audit(house.bus, house.clock)
        self._since: dict[str, tuple[NodeRecord, float]] = {}
        self._not_before: dict[str, float] = {}
        self._said: dict[str, str] = {}
        self.waiting_for: dict[str, str] = {}

    def begin(self, node: str) -> None:
        """Somebody asks for it, perhaps again: what it waited for until now is no news."""
        self.waiting_for.pop(node, None)
        self._said.pop(node, None)

    async def look(self, records: list[JobRecord], known: tuple[NodeRecord, ...]) -> None:
        """Evict whoever may go now."""
        drains = [one for one in known if one.quarantined_by and one.cause == "maintenance"]
        names = {one.node for one in drains}
        for memory in (self._since, self._not_before, self._said, self.waiting_for):
            for gone in set(memory) - names:
                memory.pop(gone)
        for drain in drains:
            try:
                await self._look_at(drain, records)
            except (BusError, KubeError) as error:
                self._hindered(drain.node, error)

    def _hindered(self, node: str, error: BusError | KubeError) -> None:
        """Try again later, and say why: the drains of other nodes go on."""
        self._not_before[node] = self._clock.monotonic() + self._policy.eviction_pause_seconds
        self.waiting_for[node] = advice(error) if isinstance(error, RejectedError) else str(error)
        self._log_once(node, self.waiting_for[node])

    async def _look_at(self, drain: NodeRecord, records: list[JobRecord]) -> None:
        now, node = self._clock.monotonic(), drain.node
        if node not in self._since or self._since[node][0] != drain:
            self._since[node] = drain, now
            self._not_before.pop(node, None)
        if not any(_on(node, record) for record in records):
            await self._finish(drain)
            return
        if not self._policy.act:
            self.waiting_for[node] = OBSERVING
        elif now - self._since[node][1] >= drain.drain_seconds:
            self.waiting_for[node] = OVER
            await self._nodes.note_drain_over(drain)
        elif now >= self._not_before.get(node, 0.0):
            await self._evict_next(drain, records)
        self._log_once(node, self.waiting_for.get(node, ""))

    async def _finish(self, drain: NodeRecord) -> None:
        self.waiting_for[drain.node] = ""
        if self._said.get(drain.node) == "drained":
            return
        self._said[drain.node] = "drained"
        log.info("node drained", node=drain.node, incident=drain.quarantined_by, by=drain.by)
        found = await self._api.node(drain.node)
        if found is not None:
            self._teller.drained(found, drain)

    async def _evict_next(self, drain: NodeRecord, records: list[JobRecord]) -> None:
        decision = decide_drain(await self._seated(drain.node, records))
        if isinstance(decision, Wait):
            self.waiting_for[drain.node] = decision.why
            return
        again = await self._read_again(drain, decision)
        if again is not None:
            await self._evict(drain, again)

    async def _seated(self, node: str, records: list[JobRecord]) -> list[Seated]:
        """The members on this node, with what is elsewhere of their jobs and goes already."""
        found: list[Seated] = []
        for record in records:
            for member in _on(node, record):
                pod = await self._api.pod(record.job.namespace, member.name)
                found.append(Seated(record, member, pod, await self._api.job(record.job)))
        return found

    async def _read_again(self, drain: NodeRecord, decided: Evict) -> Seated | None:
        """Everything anew right before the write; None if it would be decided otherwise (R25)."""
        seated = decided.seated
        entry = await self._bus.kv(JOBS).get(seated.record.job.token)
        record = entry.value if entry else None
        if record is None or seated.member not in _on(drain.node, record):
            return None
        if await self._nodes.known(drain.node) != drain:
            return None
        pod = await self._api.pod(record.job.namespace, seated.member.name)
        again = Seated(record, seated.member, pod, await self._api.job(record.job))
        return again if isinstance(decide_drain([again]), Evict) else None

    async def _evict(self, drain: NodeRecord, seated: Seated) -> None:
        pod = seated.pod
        assert pod is not None, "decided for a pod that is there"
        deed = Deed(
            verb="evict",
            target=pod.name,
            uid=pod.uid,
            incident=drain.quarantined_by,
            reason=f"{drain.node} is drained: {drain.reason}",
            owner=Owner.of(seated.record),
            by=drain.by,
        )
        node = drain.node
        try:
            outcome = await self._api.evict(pod)
        except ThrottledError as error:
            await self._put_off(drain, deed, f"{seated.name}: {error}", error.retry_after_seconds)
        except RejectedError as error:
            await self._put_off(drain, deed, f"{seated.name}: {advice(error)}", 0.0)
        else:
            self.waiting_for[node] = f"{seated.name} to leave, and its job to go on without it"
            self._teller.evicted(pod, drain)
            await self._audit.tell(deed, outcome)

    async def _put_off(self, drain: NodeRecord, deed: Deed, why: str, wish_seconds: float) -> None:
        """Try again later and quietly: a spent budget says nothing of when it has room again."""
        pause = max(self._policy.eviction_pause_seconds, wish_seconds)
        self._not_before[drain.node] = self._clock.monotonic() + pause
        if self.waiting_for.get(drain.node) != why:
            self.waiting_for[drain.node] = why
            await self._audit.tell(deed, "refused", why)

    def _log_once(self, node: str, why: str) -> None:
        if why and self._said.get(node) != why:
            self._said[node] = why
            log.info("drain waits", node=node, waits_for=why)


def _on(node: str, record: JobRecord) -> list[Member]:
    """Members of the job that are seated on the node."""
    if record.phase == "ended":
        return []
    return [seat.member for seat in record.seats if seat.member.node == node]
