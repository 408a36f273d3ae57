"""A job of ranks and the store it meets at, as the tests of the backend drive it."""

import signal
from dataclasses import dataclass
from typing import Any

from support.ranks import Event, Rank, RankHouse

TRAINEE = "support.rank_programs:trainee"
STORE = "support.rank_programs:store"
LOOPBACK = "127.0.0.1"


@dataclass
class Job:
    """Ranks by the number that orders list them by."""

    house: RankHouse
    ranks: dict[int, Rank]
    store: Rank
    port: int
    generation: int = -1

    def order(self, members: list[int], *, to: list[int] | None = None, **more: Any) -> int:
        """Order the next generation, of these members; told to all of them, or to a few."""
        self.generation += 1
        order = {
            "generation": self.generation,
            "members": members,
            "host": LOOPBACK,
            "port": self.port,
            **more,
        }
        for me in members if to is None else to:
            self.ranks[me].tell(**order)
        return self.generation

    def another_store(self) -> None:
        """Have the next generations meet elsewhere."""
        self.store, self.port = start_store(self.house)

    def until(self, event: str, members: list[int], **like: Any) -> list[Event]:
        return [self.ranks[me].until(event, **like) for me in members]

    def losses(self, members: list[int], generation: int, steps: int) -> dict[Any, str]:
        """{(rank, step): loss to the bit} of the first steps of a generation."""
        self.until("step", members, generation=generation, step=steps)
        return {
            (said["rank"], said["step"]): said["loss"]
            for me in members
            for said in self.ranks[me].said("step", generation=generation)
            if said["step"] <= steps
        }

    def end(self) -> None:
        for rank in (*self.ranks.values(), self.store):
            rank.signal(signal.SIGKILL)


def start_store(house: RankHouse) -> tuple[Rank, int]:
    (store,) = house.start(STORE, [{}])
    return store, store.until("hosting")["port"]


def start_job(
    house: RankHouse,
    size: int,
    work: str,
    environment: dict[str, str] | None = None,
    **faults: Any,
) -> Job:
    """``size`` ranks, numbered from 0, that wait for their first order.

    ``fault_1={"at": "collective", ...}`` is what the rank numbered 1 will do to itself.
    """
    store, port = start_store(house)
    settings = [
        {
            "me": me,
            "work": work,
            "fault": faults.get(f"fault_{me}"),
            "environment": environment or {},
        }
        for me in range(size)
    ]
    started = house.start(TRAINEE, settings)
    return Job(house, dict(enumerate(started)), store, port)
