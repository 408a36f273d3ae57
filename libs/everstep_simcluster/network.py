"""Each node in a network of its own: a namespace on a bridge, whose link can go dead silently.

A cluster claims one number n, and with it the subnet 10.231.n.0/24, the bridge ``evs<n>`` and the
namespaces ``evs<n>-<i>``. The claim is a lock on a file that the kernel lets go when its holder
dies, so what a dead cluster left behind can be told apart, and the next one that starts clears it.
"""

import fcntl
import ipaddress
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

from everstep_simcluster.errors import NetworkError
from everstep_simcluster.processes import kill_all

CLAIMS = Path("/run/everstep-simcluster")
CLUSTER_LIMIT = 200
"""Clusters with networks of their own that one machine can hold at once."""

NODE_LIMIT = 200
"""Nodes of one cluster: what is left of its subnet."""

_BUS, _GATEWAY = 253, 254
_NOBODY = "02:00:00:00:00:fe"  # an address that no interface has
_IP_TIMEOUT_SECONDS = 20.0
_COMMANDS_NEEDED = ("ip", "nsenter")


class NodeNetworks:
    """The networks of one cluster's nodes, numbered from 0.

    Args:
        count: How many nodes.

    Raises:
        NetworkError: Namespaces are not allowed here, or every number is claimed.
    """

    def __init__(self, count: int) -> None:
        if not 0 < count <= NODE_LIMIT:
            raise NetworkError("node networks", f"{count} nodes; 1 to {NODE_LIMIT} are possible")
        self.number, self._lock = _claim_number()
        self._count = count
        self._run_all([f"netns add {self._namespace(i)}" for i in range(count)])
        self._build_bridge()
        for index in range(count):
            self._build_node(index)

    @property
    def claim(self) -> tuple[int, TextIO]:
        """The number and the file whose lock claims it."""
        return self.number, self._lock

    @property
    def bridge(self) -> str:
        """The bridge that connects the nodes, in the root namespace."""
        return f"evs{self.number}"

    @property
    def bus_address(self) -> str:
        """Where the bus should listen; nothing else does, so its traffic can be cut alone."""
        return _address(self.number, _BUS)

    def address(self, index: int) -> str:
        """The node's address on the bridge."""
        return _address(self.number, index + 1)

    def netns(self, index: int) -> str:
        """The path of the node's namespace."""
        return f"/run/netns/{self._namespace(index)}"

    def cut(self, index: int) -> None:
        """Take the node's link down: both ways, without a word to anybody."""
        _ip("link", "set", self._link(index), "down")

    def restore(self, index: int) -> None:
        """Bring the node's link up again."""
        _ip("link", "set", self._link(index), "up")

    def rebuild(self, index: int, *, link_up: bool) -> None:
        """Make the node's network anew, as a boot does: no socket of before is left in it."""
        _ip("link", "del", self._link(index))
        _ip("netns", "del", self._namespace(index))
        _ip("netns", "add", self._namespace(index))
        self._build_node(index)
        if not link_up:
            self.cut(index)

    def cut_bus(self, index: int) -> None:
        """Lose everything between the node and the bus, silently; the node reaches the others.

        What goes out is sent into a link that ends nowhere; what comes in is then dropped by the
        reverse-path filter, because it does not come from where the answer would go.
        """
        where = ["-n", self._namespace(index)]
        _ip(*where, "neigh", "replace", self.bus_address, "lladdr", _NOBODY, "dev", "void0",
            "nud", "permanent")  # fmt: skip
        _ip(*where, "route", "replace", f"{self.bus_address}/32", "dev", "void0")

    def restore_bus(self, index: int) -> None:
        """Give the node its way to the bus back; does nothing when it has it."""
        where = ["-n", self._namespace(index)]
        routes = _ip(*where, "-j", "route", "show", f"{self.bus_address}/32", "dev", "void0")
        if json.loads(routes or "[]"):
            _ip(*where, "route", "del", f"{self.bus_address}/32", "dev", "void0")

    def close(self) -> None:
        """Take everything down and give the number back. Processes should be gone before."""
        remove_network(self.number)
        self._lock.close()

    def _namespace(self, index: int) -> str:
        return f"{self.bridge}-{index}"

    def _link(self, index: int) -> str:
        return f"{self.bridge}n{index}"

    def _build_bridge(self) -> None:
        bridge = self.bridge
        self._run_all(
            [
                f"link add {bridge} type bridge",
                f"addr add {_address(self.number, _GATEWAY)}/24 dev {bridge}",
                f"addr add {self.bus_address}/24 dev {bridge}",
                f"link set {bridge} up",
            ]
        )

    def _build_node(self, index: int) -> None:
        namespace, link = self._namespace(index), self._link(index)
        self._run_all(
            [
                f"link add {link} type veth peer name eth0 netns {namespace}",
                f"link set {link} master {self.bridge}",
                f"link set {link} up",
            ]
        )
        self._run_all(
            [
                f"addr add {self.address(index)}/24 dev eth0",
                "link add void0 type veth peer name void1",
                *(f"link set {device} up" for device in ("lo", "eth0", "void0", "void1")),
            ],
            namespace,
        )
        strict = "echo 1 > /proc/sys/net/ipv4/conf/all/rp_filter"
        _ip("netns", "exec", namespace, "sh", "-c", strict)

    @staticmethod
    def _run_all(commands: Sequence[str], namespace: str = "") -> None:
        where = ["-n", namespace] if namespace else []
        _ip(*where, "-batch", "-", text="\n".join(commands) + "\n")


def why_not_allowed() -> str | None:
    """Why nodes cannot have networks of their own here; None when they can."""
    if os.geteuid() != 0:
        return "not root"
    missing = [name for name in _COMMANDS_NEEDED if shutil.which(name) is None]
    if missing:
        return f"missing: {', '.join(missing)}"
    probe = f"evsprobe{os.getpid()}"
    try:
        _ip("netns", "add", probe)
        _ip("-n", probe, "link", "add", "eth0", "type", "veth", "peer", "name", "void0")
        _ip("netns", "del", probe)
    except NetworkError as error:
        return str(error)
    return None


def remove_network(number: int) -> None:
    """Remove what belongs to that number: processes in its namespaces, namespaces, bridge."""
    namespaces = tuple(_namespaces(number))
    for namespace in namespaces:
        kill_all((), f"/run/netns/{namespace}")
    # links first: a deleted namespace takes its end along only later, in the background
    for link in (*_links(f"evs{number}n*"), *_links(f"evs{number}")):
        _ip("link", "del", link)
    for namespace in namespaces:
        _ip("netns", "del", namespace)


def stale_numbers() -> list[int]:
    """Numbers whose cluster is dead but whose namespaces or bridge are still there."""
    stale = []
    for path in sorted(CLAIMS.glob("*.lock")):
        number = int(path.stem)
        left = _links(f"evs{number}") or any(_namespaces(number))
        claim = _lock(number) if left else None
        if claim is not None:
            claim.close()
            stale.append(number)
    return stale


def _claim_number() -> tuple[int, TextIO]:
    """Lock the first number that is free and whose subnet nobody uses; clear what lies there."""
    CLAIMS.mkdir(exist_ok=True)
    for number in range(CLUSTER_LIMIT):
        claim = _lock(number)
        if claim is None:
            continue
        remove_network(number)
        if not _subnet_in_use(number):
            return number, claim
        claim.close()
    raise NetworkError("node networks", f"all {CLUSTER_LIMIT} numbers are claimed")


def _lock(number: int) -> TextIO | None:
    claim = (CLAIMS / f"{number}.lock").open("w")
    try:
        fcntl.flock(claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        claim.close()
        return None
    return claim


def _subnet_in_use(number: int) -> bool:
    subnet = ipaddress.ip_network(f"{_address(number, 0)}/24")
    routes = [route["dst"] for route in json.loads(_ip("-j", "route", "show"))]
    return any(
        ipaddress.ip_network(route, strict=False).overlaps(subnet)
        for route in routes
        if route != "default"
    )


def _namespaces(number: int) -> Iterator[str]:
    for path in sorted(Path("/run/netns").glob(f"evs{number}-*")):
        yield path.name


def _links(pattern: str) -> list[str]:
    return [path.name for path in Path("/sys/class/net").glob(pattern)]


def _address(number: int, last: int) -> str:
    return f"10.231.{number}.{last}"


def _ip(*arguments: str, text: str = "") -> str:
    done = subprocess.run(
        ["ip", *arguments], input=text, capture_output=True, text=True,
        timeout=_IP_TIMEOUT_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise NetworkError(f"ip {' '.join(arguments)}", done.stderr or done.stdout)
    return done.stdout
