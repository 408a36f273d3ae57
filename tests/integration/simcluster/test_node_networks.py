"""Nodes with networks of their own: links that die without a word, and clean removal."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from everstep_simcluster import network
from everstep_simcluster.cluster import Cluster
from everstep_simcluster.errors import FaultNotPossibleError
from everstep_simcluster.resources import PODS
from everstep_simcluster.settings import ClusterSettings
from everstep_simcluster.store import Ref
from support.polling import eventually
from support.simcluster import NAMESPACE, phases, pod_manifest

WHY_NOT = network.why_not_allowed()
needs_networks = pytest.mark.skipif(WHY_NOT is not None, reason=f"no node networks: {WHY_NOT}")

TALKER = """
import socket, sys, time
line = socket.create_connection((sys.argv[1], int(sys.argv[2])))
line.settimeout(None)
while True:
    line.sendall(b"beat")
    time.sleep(0.02)
"""
ECHO = """
import socket
server = socket.create_server(("", 7777))
print("listening", flush=True)
while True:
    line, _ = server.accept()
    line.sendall(b"here")
    line.close()
"""


class Listener:
    """The bus's end: counts what one node says, and notices if it ever says goodbye."""

    def __init__(self) -> None:
        self.heard_bytes = 0
        self.ended = False
        self.writer: asyncio.StreamWriter | None = None

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        try:
            while data := await reader.read(4096):
                self.heard_bytes += len(data)
        except ConnectionError:
            pass
        self.ended = True
        writer.close()


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    settings = ClusterSettings(
        nodes=2, networks="namespaces", namespaces=(NAMESPACE,), heartbeat_seconds=0.1,
        node_grace_seconds=0.6,
    )  # fmt: skip
    async with Cluster(settings) as cluster:
        yield cluster


@pytest.fixture
async def bus(cluster: Cluster) -> AsyncIterator[tuple[Listener, int]]:
    listener = Listener()
    server = await asyncio.start_server(listener, cluster.bus_address, 0)
    yield listener, server.sockets[0].getsockname()[1]
    if listener.writer is not None:
        listener.writer.transport.abort()
    server.close()


def run(cluster: Cluster, name: str, node: str, *command: str) -> None:
    cluster.objects.create(PODS, NAMESPACE, pod_manifest(name, command, nodeName=node))


async def talks(listener: Listener) -> None:
    """Wait until something new is heard."""
    before = listener.heard_bytes
    await eventually(lambda: listener.heard_bytes > before)


async def falls_silent(listener: Listener) -> None:
    """Wait until nothing has been heard for a while that is ten beats long."""

    async def silent() -> bool:
        before = listener.heard_bytes
        await asyncio.sleep(0.2)
        return listener.heard_bytes == before

    await eventually(silent)


async def talking_pod(cluster: Cluster, bus: tuple[Listener, int]) -> Listener:
    listener, port = bus
    run(cluster, "talker", "node-0", sys.executable, "-c", TALKER, cluster.bus_address, str(port))
    await talks(listener)
    return listener


@needs_networks
async def test_a_cut_link_is_silent_and_heals(cluster: Cluster, bus: tuple[Listener, int]) -> None:
    listener = await talking_pod(cluster, bus)
    cluster.faults.cut_link("node-0")
    await falls_silent(listener)
    assert not listener.ended
    cluster.faults.restore_link("node-0")
    await talks(listener)


@needs_networks
async def test_a_node_whose_power_goes_says_no_goodbye(
    cluster: Cluster, bus: tuple[Listener, int]
) -> None:
    listener = await talking_pod(cluster, bus)
    await cluster.faults.power_off("node-0")
    await eventually(lambda: not cluster.faults.descendants("node-0"))
    await falls_silent(listener)
    assert not listener.ended
    cluster.faults.power_on("node-0")
    run(cluster, "late", "node-0", sys.executable, "-c", TALKER, cluster.bus_address, str(bus[1]))
    await talks(listener)
    assert not listener.ended  # the sockets of before the boot are gone, not merely late


@needs_networks
async def test_a_crash_does_say_goodbye(cluster: Cluster, bus: tuple[Listener, int]) -> None:
    listener = await talking_pod(cluster, bus)
    cluster.faults.crash("node-0")
    await eventually(lambda: listener.ended)


@needs_networks
async def test_a_node_that_lost_its_bus_still_reaches_the_others(
    cluster: Cluster, bus: tuple[Listener, int]
) -> None:
    listener = await talking_pod(cluster, bus)
    run(cluster, "echo", "node-1", sys.executable, "-c", ECHO)
    await eventually(lambda: _log(cluster, "echo") == "listening\n")
    cluster.faults.cut_bus("node-0")
    await falls_silent(listener)
    assert not listener.ended
    where = (cluster.machines["node-1"].address, 7777)
    ask = f"import socket; socket.create_connection({where}, 5).recv(9)"
    run(cluster, "asker", "node-0", sys.executable, "-c", ask)
    await cluster.wait_for(lambda: phases(cluster).get("asker") == "Succeeded")
    cluster.faults.restore_bus("node-0")
    await talks(listener)


@needs_networks
async def test_what_the_bus_says_does_not_reach_a_node_that_lost_it(
    cluster: Cluster, bus: tuple[Listener, int]
) -> None:
    listener, port = bus
    hear = (
        f"import socket\nline = socket.create_connection(({cluster.bus_address!r}, {port}))\n"
        "line.sendall(b'here')\nprint(line.recv(99), flush=True)\nprint(line.recv(99), flush=True)"
    )
    run(cluster, "hearer", "node-0", sys.executable, "-c", hear)
    await talks(listener)
    assert listener.writer is not None
    listener.writer.write(b"first")
    await eventually(lambda: _log(cluster, "hearer") == "b'first'\n")
    cluster.faults.cut_bus("node-0")
    listener.writer.write(b"second")
    await asyncio.sleep(0.3)
    assert _log(cluster, "hearer") == "b'first'\n"
    cluster.faults.restore_bus("node-0")
    await eventually(lambda: "b'second'" in _log(cluster, "hearer"))


def _log(cluster: Cluster, pod: str) -> str:
    path = cluster.log_path(Ref(NAMESPACE, pod))
    return path.read_text() if path is not None and path.exists() else ""


@needs_networks
async def test_two_clusters_have_networks_side_by_side(cluster: Cluster) -> None:
    async with Cluster(ClusterSettings(nodes=1, networks="namespaces")) as other:
        assert other.bus_address != cluster.bus_address


@needs_networks
def test_what_a_dead_cluster_left_is_seen_and_cleared_by_the_next() -> None:
    left = network.NodeNetworks(1)
    number, claim = left.claim
    claim.close()  # as the kernel does when the holder dies
    assert number in network.stale_numbers()
    following = network.NodeNetworks(2)
    assert following.number == number
    following.close()
    assert number not in network.stale_numbers()
    assert not list(Path("/run/netns").glob(f"evs{number}-*"))


@needs_networks
def test_a_node_address_answers_on_the_bridge_only() -> None:
    networks = network.NodeNetworks(1)
    with socket.create_server((networks.bus_address, 0)) as server:
        assert server.getsockname()[0] == networks.bus_address
    networks.close()


async def test_without_networks_a_link_cannot_be_cut() -> None:
    async with Cluster(ClusterSettings(nodes=1, networks="none")) as cluster:
        with pytest.raises(FaultNotPossibleError, match="no networks of their own"):
            cluster.faults.cut_link("node-0")
