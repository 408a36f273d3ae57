"""Workers that run a script with the library, and a stand-in for the agents that order them about.

    with RankHouse() as house:
        job = TestJob(house, "support.trainee_programs:train", workers=3)
        job.order([0, 1, 2])
        job[2].signal(SIGKILL)
        job.order([0, 1])
        job.until("formed", [0, 1], generation=2)

Each worker has what an agent gives it: a socket that carries the lines of ``link`` and a page. What
the script itself says comes on the link of its rank.
"""

import select
import socket
import time
from typing import Any

from everstep_checkpoint.slots import SlotPair
from everstep_contract.identity import Endpoint, JobKey
from everstep_trainer.link import TO_AGENT, Assignment, Finish, Park, ToAgent, ToWorker, to_line
from everstep_trainer.page import FOR_EVER_NS, Page
from support.ranks import UNTIL_SECONDS, Rank, RankHouse

STORE = "support.trainee_programs:store"
LOOPBACK = "127.0.0.1"
JOB = JobKey(namespace="tests", name="training")
LINEAGE = "uid-1"
Slots = tuple[SlotPair, SlotPair]
"""Of the state, and of what a rank has for itself: they outlive the worker."""


class Trainee:
    """One worker, as its agent sees it."""

    def __init__(
        self, house: RankHouse, program: str, slots: Slots, local_rank: int, **settings: Any
    ) -> None:
        self.page = Page.create("test")
        self.told: list[ToAgent] = []
        self._newest = 0
        self._agent_end, worker_end = socket.socketpair()
        with worker_end:
            self.rank: Rank = house.start_with(
                program,
                [worker_end.fileno(), self.page.fd, *(pair.fd for pair in slots)],
                local_rank=local_rank,
                **settings,
            )
        self._unread = b""

    def order(self, order: ToWorker) -> None:
        """Tell the worker what to do, and stand by it for ever."""
        if isinstance(order, Assignment):
            self._newest = max(self._newest, order.generation)
        self.page.vouch(self._newest if isinstance(order, Assignment) else 0, FOR_EVER_NS)
        self._agent_end.sendall(to_line(order))

    def until_told(self, kind: str, **like: Any) -> Any:
        """The first message of this kind with these values, told already or within the bound."""
        deadline = time.monotonic() + UNTIL_SECONDS
        while True:
            for message in self.told:
                values = message.model_dump()
                if message.kind == kind and like.items() <= values.items():
                    return message
            left = deadline - time.monotonic()
            assert left > 0, f"no {kind} {like} from {self.rank.pid}; told {self.told[-5:]}"
            assert self._read(left), f"{self.rank.pid} left before {kind} {like}: {self._why()}"

    def messages(self, kind: str) -> list[Any]:
        """What has been told so far."""
        while self._read(0.0):
            pass
        return [message for message in self.told if message.kind == kind]

    def hang_up(self) -> None:
        """Close the agent's end, as its death would."""
        self._agent_end.close()

    def close(self) -> None:
        self._agent_end.close()
        self.page.close()

    def _read(self, seconds: float) -> bool:
        if not select.select([self._agent_end], [], [], seconds)[0]:
            return seconds > 0
        received = self._agent_end.recv(1 << 16)
        *lines, self._unread = (self._unread + received).split(b"\n")
        self.told += [TO_AGENT.validate_json(line) for line in lines]
        return bool(received)

    def _why(self) -> object:
        return self.rank.said("crashed") or self.rank.events[-3:]


class TrainingJob:
    """Workers by number, members of ``nproc`` each, and the store they meet at."""

    def __init__(
        self, house: RankHouse, program: str, *, workers: int, nproc: int = 1, **settings: Any
    ) -> None:
        self._house, self._program, self._settings = house, program, settings
        self.nproc = nproc
        self.generation = 0
        self.workers: dict[int, Trainee] = {}
        self.slots: dict[int, Slots] = {}
        self._all: list[Trainee] = []
        self.another_store()
        for number in range(workers):
            self.start(number)

    def __getitem__(self, number: int) -> Trainee:
        return self.workers[number]

    def start(self, number: int, **settings: Any) -> Trainee:
        """Start a worker; in the place of the one of this number if there was one."""
        if number not in self.slots:
            self.slots[number] = SlotPair.create("state"), SlotPair.create("rank")
        trainee = Trainee(
            self._house,
            self._program,
            self.slots[number],
            number % self.nproc,
            number=number,
            **{**self._settings, **settings},
        )
        self._all.append(trainee)
        self.workers[number] = trainee
        return trainee

    def another_store(self) -> None:
        """Have the next generations meet elsewhere."""
        self.store, self.port = self.host_store()

    def host_store(self) -> tuple[Rank, int]:
        """One more store, and its port."""
        (store,) = self._house.start(STORE, [{}])
        return store, int(store.until("hosting")["port"])

    def order(self, numbers: list[int], **more: Any) -> int:
        """Order the next generation, of these workers in rank order."""
        self.generation += 1
        return self.repeat_order(numbers, self.generation, **more)

    def repeat_order(self, numbers: list[int], generation: int, **more: Any) -> int:
        """Tell these workers to be this generation."""
        members = tuple(f"member-{number // self.nproc}" for number in numbers)
        places = list(dict.fromkeys(members))
        for rank, number in enumerate(numbers):
            values: dict[str, Any] = {
                "job": JOB,
                "job_uid": LINEAGE,
                "generation": generation,
                "verdict_id": f"v{generation}",
                "rank": rank,
                "world_size": len(numbers),
                "local_rank": number % self.nproc,
                "local_world_size": self.nproc,
                "member_index": places.index(members[rank]),
                "members": members,
                "store": Endpoint(host=LOOPBACK, port=self.port),
                "store_prefix": f"g{generation}-v{generation}",
                "form_seconds": 30.0,
                "construct_seconds": 5.0,
            }
            self.workers[number].order(Assignment(**{**values, **more}))
        return generation

    def park(self, numbers: list[int]) -> int:
        """Order these workers to hold."""
        self.generation += 1
        for number in numbers:
            self.workers[number].order(Park(generation=self.generation))
        return self.generation

    def finish(self, numbers: list[int]) -> None:
        """Stop these workers."""
        for number in numbers:
            self.workers[number].order(Finish(reason="the test is over"))

    def until_told(self, kind: str, numbers: list[int], **like: Any) -> list[Any]:
        """What each of these workers tells its agent."""
        return [self.workers[number].until_told(kind, **like) for number in numbers]

    def until(self, event: str, numbers: list[int], **like: Any) -> list[dict[str, Any]]:
        """What the script of each of these workers says."""
        return [self.workers[number].rank.until(event, **like) for number in numbers]

    def close(self) -> None:
        for trainee in self._all:
            trainee.close()
        for pairs in self.slots.values():
            for pair in pairs:
                pair.close()
