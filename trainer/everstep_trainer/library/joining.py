"""Join a job: the first thing that a training script asks of Everstep."""

import logging
import os
import socket
from datetime import timedelta

from everstep_trainer.backend import install, is_proven_torch
from everstep_trainer.library.alone import OwnAgent
from everstep_trainer.library.environment import Launch, forget_agent_store, read_launch
from everstep_trainer.library.errors import LaunchError
from everstep_trainer.library.job import Job
from everstep_trainer.library.orders import Link, Orders
from everstep_trainer.library.state import JobState
from everstep_trainer.library.worker import Collectives, Worker
from everstep_trainer.link import Hello
from everstep_trainer.page import Page
from everstep_trainer.step_log import StepLog

log = logging.getLogger("everstep")

_held: list[object] = []
"""What a joined process holds until it ends; empty before."""


def join(*, backend: str | None = None, snapshot_every: int | None = None) -> Job:
    """Join the job that this process was started for. Once a process, after its imports.

    Under ``everstep run`` the worker belongs to its agent from here on. Without any launcher, as
    in ``python train.py``, it trains alone, as a job of one worker that nothing heals: the way to
    debug a script.

    Args:
        backend: "everstep" (gloo inside, on CPUs) or "nccl"; by default by whether there is a GPU.
            Healing in place over NCCL is not proven on hardware yet.
        snapshot_every: Steps between copies of the state that are kept in this process's memory,
            to go back to if every replica is torn; 0 for none. By default every 20 steps if there
            is more than one optimizer, otherwise none, since one optimizer's step is not torn.

    Raises:
        LaunchError: It was started by another launcher, has joined already, or lacks a GPU.
    """
    if _held:
        raise LaunchError("this process has joined already: keep the job that `join` returned")
    launch = read_launch(os.environ)
    forget_agent_store(os.environ)
    if not is_proven_torch():
        log.warning("re-forming in place is not proven with this version of torch")
    install()
    collectives = Collectives.choose(backend, launch.local_rank if launch else 0)
    if launch is None:
        return _join_alone(collectives, snapshot_every)
    return _join_agent(launch, collectives, snapshot_every)


def _join_agent(launch: Launch, collectives: Collectives, snapshot_every: int | None) -> Job:
    for descriptor in (launch.link_fd, launch.page_fd):
        # what the script starts is no worker of ours
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - os' own signature
    connection, page = socket.socket(fileno=launch.link_fd), Page(launch.page_fd)
    orders = Orders()
    link = Link(connection, orders)
    state, steps = JobState(page, snapshot_every), StepLog.wanted(os.environ)
    worker = Worker(page, state, link.send, collectives, steps)
    link.send(Hello(local_rank=launch.local_rank, pid=os.getpid()))
    _held.append(link)
    return Job(worker, orders, os.environ)


def _join_alone(collectives: Collectives, snapshot_every: int | None) -> Job:
    log.info("not started by `everstep run`: training alone, nothing will be healed")
    agent = OwnAgent()
    state = JobState(agent.page, snapshot_every)
    steps = StepLog.wanted(os.environ)
    worker = Worker(agent.page, state, agent.hear, collectives, steps)
    _held.append(agent)
    return Job(worker, agent.orders, os.environ, grace=timedelta(0))
