"""A training script that speaks the link and has no torch: it does as its first argument says.

    python fake_worker.py BEHAVIOUR [FOLDER]

Each process writes its environment to FOLDER/env-PID.json, and the steps it has completed to
FOLDER/steps-PID. ``steps``: forms at once whatever it is
told to, then steps every few milliseconds until told otherwise; its newest step is on the page.
``deaf``: forms the first generation and never reads again. ``crash``: raises once it has formed.
``early-crash``: raises before it joins. ``exit-N``: ends with status N once it has formed.
``stubborn``: as ``steps``, but does not end when told to finish.
"""

import json
import os
import select
import socket
import sys
import time
from pathlib import Path
from typing import NoReturn

from everstep_trainer.link import (
    PAGE_FD_VARIABLE,
    SOCKET_FD_VARIABLE,
    TO_WORKER,
    Assignment,
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

    def misbehave(self) -> None:
        if self.behaviour == "crash":
            raise RuntimeError("a fault of the application")
        if self.behaviour.startswith("exit-"):
            sys.exit(int(self.behaviour.removeprefix("exit-")))
        if self.behaviour == "deaf":
            sleep_for_ever()


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
