"""A training script that speaks the link and has no torch: it does as its first argument says.

    python fake_worker.py BEHAVIOUR [FOLDER]

Each process writes its environment to FOLDER/env-PID.json, and the steps it has completed to
FOLDER/steps-PID. ``steps``: forms at once whatever it is
told to, then steps every few milliseconds until told otherwise; its newest step is on the page.
``deaf``: forms the first generation and never reads again. ``crash``: raises once it has formed.
``early-crash``: raises before it joins. ``exit-N``: ends with status N once it has formed.
``stubborn``: as ``steps``, but does not end when told to finish. ``saves-N``: as ``steps``, goes on
from the snapshot of the life before it, makes one of each step, of N KiB, and every few steps says
that it is to be saved. ``snapshots-N``: as that, but never says so. ``few-N``: as that, but
only two snapshots, of steps that are the same for everybody. ``parts-N``: as ``snapshots-N``, of a
state that ranks have split up.
"""

import json
import os
import select
import socket
import struct
import sys
import time
from pathlib import Path
from typing import NoReturn

from everstep_checkpoint.slots import SlotPair, Word
from everstep_trainer.link import (
    PAGE_FD_VARIABLE,
    RANK_SLOTS_FD_VARIABLE,
    SOCKET_FD_VARIABLE,
    STATE_SLOTS_FD_VARIABLE,
    TO_WORKER,
    Assignment,
    CheckpointDue,
    Finish,
    Finished,
    FirstStep,
    Formed,
    Hello,
    Left,
    Park,
    Parked,
    ToAgent,
    ToWorker,
    to_line,
)
from everstep_trainer.page import Page

STEP_SECONDS = 0.005
SAVE_EVERY = 10
NUMBER = struct.Struct("<q")
FEW = (60, 120)
"""Steps that a worker of few snapshots keeps."""
SHARDS = 1 << 32
SAVING = ("saves", "snapshots", "few", "parts")


class FakeWorker:
    """Follows orders as the library does, in one thread and without a group."""

    def __init__(self, behaviour: str, folder: Path) -> None:
        self.behaviour = behaviour
        self.note = os.open(folder / f"steps-{os.getpid()}", os.O_WRONLY | os.O_CREAT)
        self.link = socket.socket(fileno=int(os.environ[SOCKET_FD_VARIABLE]))
        self.page = Page(int(os.environ[PAGE_FD_VARIABLE]))
        self.step = 0
        self.generation = 0
        self.in_group: Assignment | None = None
        self.unread = b""
        kind, _, kib = behaviour.partition("-")
        self.saves = Saves(kind, int(kib) << 10) if kind in SAVING else None
        self.step = self.saves.newest_step if self.saves else 0

    def run(self) -> None:
        self.say(Hello(local_rank=int(os.environ["LOCAL_RANK"]), pid=os.getpid()))
        self.say(Parked(generation=0, version=-1))
        while True:
            for message in self.read():
                if isinstance(message, Finish) and self.behaviour != "stubborn":
                    self.say(Finished(step=self.step))
                    return
                self.follow(message)
            if self.in_group:
                self.complete_step()

    def say(self, message: ToAgent) -> None:
        self.link.sendall(to_line(message))

    def read(self) -> list[ToWorker]:
        ready, _, _ = select.select([self.link], [], [], STEP_SECONDS if self.in_group else None)
        if not ready:
            return []
        *lines, self.unread = (self.unread + self.link.recv(1 << 16)).split(b"\n")
        return [TO_WORKER.validate_json(line) for line in lines]

    def follow(self, message: ToWorker) -> None:
        if isinstance(message, Park):
            self.generation, self.in_group = message.generation, None
            self.say(Parked(generation=self.generation, version=self.step))
        elif isinstance(message, Assignment):
            self.form(message)

    def form(self, assignment: Assignment) -> None:
        left, self.generation = self.generation, assignment.generation
        self.say(Left(generation=self.generation, left_generation=left, version=self.step or -1))
        verdict = assignment.verdict_id
        self.say(
            Formed(
                generation=self.generation, verdict_id=verdict, agreed_step=self.step, steps_lost=0
            )
        )
        self.in_group = assignment
        self.complete_step()
        self.say(
            FirstStep(
                generation=self.generation, verdict_id=verdict, step=self.step, step_seconds=0.005
            )
        )
        self.misbehave()

    def complete_step(self) -> None:
        self.page.write("step_begun", self.step + 1)
        self.step += 1
        self.page.write("step", self.step)
        self.page.write("version", self.step)
        self.page.add_step_seconds(STEP_SECONDS)
        os.pwrite(self.note, str(self.step).encode(), 0)
        if self.saves and self.in_group:
            self.saves.keep(self.in_group, self.step)
            if self.step % SAVE_EVERY == 0 and self.behaviour.startswith("saves"):
                due = CheckpointDue(
                    generation=self.generation,
                    step=self.step,
                    writes_state=self.in_group.rank == 0,
                )
                self.say(due)

    def misbehave(self) -> None:
        if self.behaviour == "crash":
            raise RuntimeError("a fault of the application")
        if self.behaviour.startswith("exit-"):
            sys.exit(int(self.behaviour.removeprefix("exit-")))
        if self.behaviour == "deaf":
            sleep_for_ever()


class Saves:
    """Snapshots that are one number, which tells of step and shard, again and again."""

    def __init__(self, kind: str, total_bytes: int) -> None:
        self.kind = kind
        self.state = SlotPair(int(os.environ[STATE_SLOTS_FD_VARIABLE]))
        self.rank = SlotPair(int(os.environ[RANK_SLOTS_FD_VARIABLE]))
        self.total_bytes = total_bytes
        for pair in (self.state, self.rank):
            if pair.slot_bytes < total_bytes:
                pair.resize(total_bytes)

    @property
    def newest_step(self) -> int:
        good = self.state.ready()
        return good[0][1].step if good else 0

    def keep(self, place: Assignment, step: int) -> None:
        if self.kind == "few" and step not in FEW:
            return
        own = (place.rank, place.world_size)
        shared = own if self.kind == "parts" else (0, 1)
        for pair, (shard, shards) in ((self.state, shared), (self.rank, own)):
            slot = pair.begin()
            if slot is None:
                continue
            data = content(step, shard) * (self.total_bytes // NUMBER.size)
            os.pwrite(pair.fd, data, pair.place(slot))
            written = Word(0, "ready", place.generation, step, shard, shards, self.total_bytes)
            pair.finish(slot, written)


def content(step: int, shard: int) -> bytes:
    """What a shard of a step is made of."""
    return NUMBER.pack(shard * SHARDS + step)


def sleep_for_ever() -> NoReturn:
    while True:
        time.sleep(3600)


def main() -> None:
    behaviour, folder = sys.argv[1], sys.argv[2]
    note = Path(folder) / f"env-{os.getpid()}.json"
    note.write_text(json.dumps({**os.environ, "argv": sys.argv, "name": __name__}))
    if behaviour == "early-crash":
        raise RuntimeError("a fault before joining")
    if behaviour == "unmodified":
        sleep_for_ever()
    FakeWorker(behaviour, Path(folder)).run()


if __name__ == "__main__":
    main()
