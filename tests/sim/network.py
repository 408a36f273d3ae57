"""The training network: who reaches whom, and what a caller meets who does not reach anybody."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from everstep_contract.identity import Endpoint
from everstep_contract.orders import Order
from everstep_contract.queries import ProbeMember, ProbeReply

LATENCY_SECONDS: Final = 0.001
PATIENCE_SECONDS: Final = 1.0

Answer = Callable[[Order | None], Awaitable[tuple[str, Order | None]]]
"""An agent's peer port: takes an offered order, gives its incarnation and its newest order."""


class Network:
    """Ports that answer, refuse (a living kernel) or swallow (a dead or cut off one)."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._answers: dict[str, Answer] = {}
        self._silent: set[str] = set()
        self._restored = asyncio.Event()

    def open(self, endpoint: Endpoint, answer: Answer) -> None:
        """A process listens."""
        self._answers[str(endpoint)] = answer

    def close(self, endpoint: Endpoint) -> None:
        """The process is gone; its node's kernel refuses from now on."""
        self._answers.pop(str(endpoint), None)

    def silence(self, host: str) -> None:
        """Nothing comes from this host any more, not even a refusal."""
        self._silent.add(host)

    def restore(self, host: str) -> None:
        """Undo `silence`."""
        self._silent.discard(host)
        self._restored.set()
        self._restored = asyncio.Event()

    async def wait_for(self, host: str) -> None:
        """Wait while nothing gets through to or from this host."""
        while host in self._silent:
            await self._restored.wait()

    def reaches(self, one: str, other: str) -> bool:
        """Whether packets get from one host to the other."""
        return one not in self._silent and other not in self._silent

    async def ask(
        self, host: str, endpoint: Endpoint, order: Order | None
    ) -> tuple[str, Order | None]:
        """Talk to a peer port.

        Raises:
            ConnectionRefusedError: Nobody listens there, says a living kernel.
            TimeoutError: Nothing comes back.
        """
        await asyncio.sleep(LATENCY_SECONDS * self._dice.uniform(0.2, 3))
        async with asyncio.timeout(PATIENCE_SECONDS):
            if not self.reaches(host, endpoint.host):
                await asyncio.Event().wait()
            answer = self._answers.get(str(endpoint))
            if answer is None:
                raise ConnectionRefusedError(str(endpoint))
            return await answer(order)

    async def probe(self, host: str, query: ProbeMember) -> ProbeReply:
        """As an agent looks at another for the adjudicator (R11)."""
        outcome, detail = "silent", "no answer"
        try:
            async with asyncio.timeout(query.timeout_seconds):
                incarnation, _ = await self.ask(host, query.endpoint, None)
                outcome = "alive" if incarnation == query.target else "other_incarnation"
                detail = incarnation
        except ConnectionRefusedError:
            outcome, detail = "refused", f"{query.endpoint} refuses"
        except TimeoutError:
            pass
        return ProbeReply.model_validate(
            {
                "target": query.target,
                "outcome": outcome,
                "witness": query.witness,
                "seconds": query.timeout_seconds,
                "detail": detail,
            }
        )
