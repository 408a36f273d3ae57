"""Join a job: the first thing that a training script asks of Everstep."""

import logging
import os
import socket
from dataclasses import replace
from datetime import timedelta

from everstep_checkpoint.slots import SlotPair

from everstep_trainer.backend import install, is_proven_torch
from everstep_trainer.library.alone import OwnAgent
from everstep_trainer.library.cadence import RESUME_VARIABLE, ROOT_VARIABLE, Pacer, Wish
from everstep_trainer.library.environment import Launch, forget_agent_store, read_launch
from everstep_trainer.library.errors import LaunchError
from everstep_trainer.library.job import Job
from everstep_trainer.library.orders import Link, Orders
from everstep_trainer.library.snapshots import Snapshots
from everstep_trainer.library.state import JobState, Saving
from everstep_trainer.library.worker import Collectives, Worker
from everstep_trainer.link import Hello
from everstep_trainer.page import Page
from everstep_trainer.step_log import StepLog

log = logging.getLogger("everstep")

_held: list[object] = []
"""What a joined process holds until it ends; empty before."""


def join(
    *,
    backend: str | None = None,
    snapshot_every: int | None = None,
    checkpoint_every: int | None = None,
) -> Job:
    """Join the job that this process was started for. Once a process, after its imports.

    Under ``everstep run`` the worker belongs to its agent from here on. Without any launcher, as
    in ``python train.py``, it trains alone, as a job of one worker that nothing heals: the way to
    debug a script.

    Args:
        backend: "everstep" (gloo inside, on CPUs) or "nccl"; by default by whether there is a GPU.
            Healing in place over NCCL is not proven on hardware yet.
        snapshot_every: Steps between copies of the state in the member's memory, which outlive its
            workers: to go back to if every replica is torn or gone; 0 for none. By default as
            often as costs 1 % of the time if there are checkpoints as well; without them every 20
            steps if there is more than one optimizer, and else none: one optimizer's step is not
            torn.
        checkpoint_every: Steps between checkpoints on storage, and one more at the end; 0 for none.
            By default, if EVERSTEP_CHECKPOINT_ROOT names a folder, as often as is best by what a
            snapshot, a checkpoint and a step are measured to take (`everstep plan` explains).

    Raises:
        LaunchError: It was started by another launcher, has joined already, lacks a GPU, or is to
            write checkpoints and has no folder for them.
    """
    _speak_up()
    if _held:
        raise LaunchError("this process has joined already: keep the job that `join` returned")
    launch = read_launch(os.environ)
    forget_agent_store(os.environ)
    wish = Wish.of(snapshot_every, checkpoint_every, os.environ, is_alone=launch is None)
    if not is_proven_torch():
        log.warning("re-forming in place is not proven with this version of torch")
    install()
    collectives = Collectives.choose(backend, launch.local_rank if launch else 0)
    if launch is None:
        return _join_alone(collectives, wish)
    return _join_agent(launch, collectives, wish)


def _speak_up() -> None:
    """Where the script sets up no logging, say on stderr what people look for in a member's log."""
    if log.handlers or log.level != logging.NOTSET:
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("everstep: %(message)s"))
    handler.addFilter(lambda _: not logging.getLogger().handlers)
    log.addHandler(handler)
    log.setLevel(logging.INFO)


def _join_agent(launch: Launch, collectives: Collectives, wish: Wish) -> Job:
    for descriptor in launch.descriptors:
        # what the script starts is no worker of ours
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - os' own signature
    connection, page = socket.socket(fileno=launch.link_fd), Page(launch.page_fd)
    state_slots, rank_slots = SlotPair(launch.state_slots_fd), SlotPair(launch.rank_slots_fd)
    snapshots = Snapshots(state_slots, rank_slots, collectives.copier())
    saving = Saving(
        snapshots,
        Pacer(wish),
        os.environ.get(ROOT_VARIABLE, ""),
        os.environ.get(RESUME_VARIABLE, ""),
    )
    orders = Orders()
    link = Link(connection, orders)
    state, steps = JobState(page, saving), StepLog.wanted(os.environ)
    worker = Worker(page, state, link.send, collectives, steps)
    link.send(Hello(local_rank=launch.local_rank, pid=os.getpid()))
    _held.append(link)
    return Job(worker, orders, os.environ)


def _join_alone(collectives: Collectives, wish: Wish) -> Job:
    log.info("not started by `everstep run`: training alone, nothing will be healed")
    if wish.checkpoint_every != 0:
        log.warning("without `everstep run` nobody commits checkpoints, so none is written")
    agent = OwnAgent()
    snapshots = Snapshots(SlotPair.create("state"), SlotPair.create("rank"), collectives.copier())
    saving = Saving(snapshots, Pacer(replace(wish, checkpoint_every=0)))
    state, steps = JobState(agent.page, saving), StepLog.wanted(os.environ)
    worker = Worker(agent.page, state, agent.hear, collectives, steps)
    _held.append(agent)
    return Job(worker, agent.orders, os.environ, grace=timedelta(0))
