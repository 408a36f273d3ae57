"""Processes of a node that end together."""

import subprocess
import sys

from everstep_simcluster.processes import kill_all

CHILDREN = 300
AGENT = f"""
import os, select, signal
poll = select.poll()
for _ in range({CHILDREN}):
    child = os.fork()
    if child == 0:
        signal.pause()
    poll.register(os.pidfd_open(child), select.POLLIN)
if os.fork() == 0:  # the youngest, which is killed last
    print("ready", flush=True)
    poll.poll()
    os.write(1, b"somebody has died")
signal.pause()
"""


def test_of_processes_that_are_killed_together_none_sees_another_die() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", AGENT], stdout=subprocess.PIPE, start_new_session=True
    ) as agent:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"ready\n"
        assert len(kill_all([agent.pid])) == CHILDREN + 2
        assert agent.stdout.read() == b""
