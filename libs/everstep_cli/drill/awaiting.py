"""Waits for what a fault's row says comes next, each time with a bound."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, assert_never

from everstep_contract.facts.job import ClusterWritten
from everstep_contract.identity import Member
from everstep_contract.manifest import Manifest

from everstep_cli.drill.actions import (
    AwaitCheckpoints,
    AwaitDismissal,
    AwaitHold,
    AwaitNode,
    AwaitSteps,
    AwaitWrites,
    LetTrain,
    Waiting,
)
from everstep_cli.drill.stage import Stage
from everstep_cli.drill.watch import Watch
from everstep_cli.drill.worker_logs import read_steps
from everstep_cli.errors import CommandError
from everstep_cli.waiting import answered, seen

HEAL_SECONDS: Final = 60.0
"""How long any change of membership may take; the same bound as plain torchrun has."""
CHECKPOINT_SECONDS: Final = 120.0
"""How long it may take to the next checkpoint, and to the next save that fails."""
HOLD_WATCH_SECONDS: Final = 2.0
"""How long a holding job is watched: it must not take a step."""
CLUSTER_SECONDS: Final = 60.0
"""How long the cluster may take to notice, and Everstep to write to it, with hasty timings."""


@dataclass
class Injured:
    """What was done so far; ``first_at`` in seconds since the epoch.

    ``best``: the newest checkpoint that was whole when the job had ended; ``damaged``: the one that
    was newer.
    """

    first_at: float | None = None
    members: list[Member] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)
    generation: int = 0
    best: Manifest | None = None
    damaged: Manifest | None = None

    @property
    def since(self) -> datetime:
        """The first fault's instant."""
        assert self.first_at is not None
        return datetime.fromtimestamp(self.first_at, UTC)


class Awaiter:
    """Looks at the stage and at what is heard, until what is awaited has come."""

    def __init__(self, stage: Stage, watch: Watch, injured: Injured) -> None:
        self._stage = stage
        self._watch = watch
        self._injured = injured

    async def wait(self, awaited: Waiting) -> None:
        """Wait for it.

        Raises:
            CommandError: It did not come in time.
        """
        match awaited:
            case AwaitSteps():
                await self._await_steps(awaited)
            case AwaitCheckpoints(count=count):
                await self._await_checkpoints(count)
            case AwaitHold():
                await self.reordered()
                await asyncio.sleep(HOLD_WATCH_SECONDS)
            case AwaitDismissal():
                await self._await_dismissal()
            case AwaitNode(ready=ready):
                await self._await_node(ready)
            case AwaitWrites(verbs=verbs):
                await self._await_writes(frozenset(verbs))
            case LetTrain(steps=steps):
                await self._let_train(steps)
            case _:
                assert_never(awaited)

    async def reordered(self) -> None:
        """Wait for an order that is newer than the one in which somebody was hurt."""

        def newer() -> bool | None:
            order = self._watch.order
            return (order is not None and order.generation > self._injured.generation) or None

        await self._watch.until(newer, within_seconds=HEAL_SECONDS, what="a newer order")

    async def _await_steps(self, wanted: AwaitSteps) -> None:
        def stepping() -> bool | None:
            return self._watch.stepping(wanted.members, after=self._injured.generation) or None

        what = f"the first step with {wanted.members} members"
        await self._watch.until(stepping, within_seconds=wanted.within_seconds, what=what)
        assert self._watch.order is not None
        self._injured.generation = self._watch.order.generation

    async def _await_checkpoints(self, count: int) -> None:
        """Committed from now on, so that nothing is half written when one is there."""
        before = self._watch.committed

        def enough() -> bool | None:
            return self._watch.committed >= before + count or None

        what = f"{count} more checkpoints"
        await self._watch.until(enough, within_seconds=count * CHECKPOINT_SECONDS, what=what)

    async def _await_dismissal(self) -> None:
        def dismissed() -> bool | None:
            ended = self._watch.ended(self._injured.since)
            return any(incident.outcome == "dismissed" for incident in ended) or None

        await self._watch.until(dismissed, within_seconds=HEAL_SECONDS, what="a dismissal")

    async def _await_node(self, ready: str) -> None:
        name = self._injured.members[0].node

        async def is_so() -> bool | None:
            nodes = await self._stage.cluster.node_objects()
            return any(_is(node, name, ready) for node in nodes) or None

        if not await answered(is_so, within_seconds=CLUSTER_SECONDS):
            raise CommandError(f"{name} was not Ready {ready} within {CLUSTER_SECONDS:g} s")

    async def _await_writes(self, verbs: frozenset[str]) -> None:
        def written() -> bool | None:
            told = {
                event.verb
                for event in self._watch.events
                if isinstance(event, ClusterWritten)
                and event.outcome == "done"
                and event.at >= self._injured.since
            }
            return verbs <= told or None

        what = f"writes to the cluster ({', '.join(sorted(verbs))})"
        await self._watch.until(written, within_seconds=CLUSTER_SECONDS, what=what)

    async def _let_train(self, steps: int) -> None:
        last = self._newest_step() + steps

        def stepped() -> bool | None:
            return self._newest_step() >= last or None

        if not await seen(stepped, within_seconds=HEAL_SECONDS):
            raise CommandError(f"no step {last} within {HEAL_SECONDS:g} s")

    def _newest_step(self) -> int:
        return max((step.step for step in read_steps(self._stage.workers)), default=0)


def _is(node: Mapping[str, Any], name: str, ready: str) -> bool:
    conditions = node["status"].get("conditions") or ()
    return node["metadata"]["name"] == name and any(
        one["type"] == "Ready" and one["status"] == ready for one in conditions
    )
