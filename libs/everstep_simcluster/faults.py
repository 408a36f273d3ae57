"""What can happen to a node: its processes killed or frozen, its power, link or bus lost."""

import signal

from everstep_simcluster import preemptors
from everstep_simcluster.errors import FaultNotPossibleError
from everstep_simcluster.kubelet import Kubelet
from everstep_simcluster.network import NodeNetworks
from everstep_simcluster.node_machine import Instant, Machine, new_boot_id
from everstep_simcluster.objects import Objects
from everstep_simcluster.pod_runner import SessionWatch
from everstep_simcluster.processes import kill_all, signal_all


class Faults:
    """Does things to nodes, by name. Each method returns the instant just before it took effect.

    A frozen, cut or powered-off node's kubelet neither hears nor writes, nor does a stopped one.
    """

    def __init__(
        self,
        objects: Objects,
        kubelets: dict[str, Kubelet],
        networks: NodeNetworks | None,
        sessions: SessionWatch,
    ) -> None:
        self._objects = objects
        self._kubelets = kubelets
        self._networks = networks
        self._sessions = sessions

    def descendants(self, node: str) -> set[int]:
        """Ids of all processes that run on the node."""
        return self._machine(node).processes()

    def crash(self, node: str) -> Instant:
        """SIGKILL every process of the node's pods; the node itself lives and says so."""
        machine = self._machine(node)
        at = Instant.now()
        kill_all(machine.leaders, machine.netns)
        return at

    def kill(self, node: str, pid: int) -> Instant:
        """SIGKILL one process of the node, a worker for example.

        Raises:
            FaultNotPossibleError: It is not one of the node's.
        """
        if pid not in self.descendants(node):
            raise FaultNotPossibleError(f"process {pid} does not run on node {node!r}")
        at = Instant.now()
        signal_all([pid], signal.SIGKILL)
        return at

    def freeze(self, node: str) -> Instant:
        """Stop everything on the node, its kubelet too; nothing is closed and nobody told."""
        machine = self._machine(node)
        members = machine.processes()
        at = Instant.now()
        signal_all(members, signal.SIGSTOP)
        signal_all(machine.processes() - members, signal.SIGSTOP)  # born in between
        self._set(machine, frozen=True)
        return at

    def thaw(self, node: str) -> Instant:
        """Let a frozen node go on as if no time had passed for it."""
        machine = self._machine(node)
        members = machine.processes()
        at = Instant.now()
        signal_all(members, signal.SIGCONT)
        self._set(machine, frozen=False)
        return at

    async def power_off(self, node: str) -> Instant:
        """Cut the link first, so that no socket says goodbye, then end all that runs.

        Where nodes have no networks of their own the processes do say goodbye: freeze instead.
        """
        machine = self._machine(node)
        at = Instant.now()
        if self._networks is not None:
            self._networks.cut(machine.index)
        self._set(machine, powered=False)
        kill_all(machine.leaders, machine.netns)
        await self._kubelets[node].stop()
        for session in machine.leaders:
            self._sessions.forget(session)
        machine.leaders.clear()
        return at

    def power_on(self, node: str) -> Instant:
        """Boot the node again, with a new boot id and none of its old processes."""
        machine = self._machine(node)
        if machine.powered:
            raise FaultNotPossibleError(f"node {node!r} is on")
        at = Instant.now()
        machine.boot_id = new_boot_id()
        if self._networks is not None:
            self._networks.rebuild(machine.index, link_up=machine.link_up)
        self._set(machine, powered=True, frozen=False, kubelet_up=True)
        self._kubelets[node].start()
        return at

    def cut_link(self, node: str) -> Instant:
        """Take the node's link away, silently; its processes go on alone."""
        machine, networks = self._machine(node), self._need_networks("cut_link")
        at = Instant.now()
        networks.cut(machine.index)
        self._set(machine, link_up=False)
        return at

    def restore_link(self, node: str) -> Instant:
        """Give the node its link back."""
        machine, networks = self._machine(node), self._need_networks("restore_link")
        at = Instant.now()
        if machine.powered:
            networks.restore(machine.index)
        self._set(machine, link_up=True)
        return at

    def cut_bus(self, node: str) -> Instant:
        """Lose, silently, everything between the node and the bus and nothing else."""
        machine, networks = self._machine(node), self._need_networks("cut_bus")
        at = Instant.now()
        networks.cut_bus(machine.index)
        return at

    def restore_bus(self, node: str) -> Instant:
        """Give the node its way to the bus back."""
        machine, networks = self._machine(node), self._need_networks("restore_bus")
        at = Instant.now()
        networks.restore_bus(machine.index)
        return at

    def stop_kubelet(self, node: str) -> Instant:
        """Let the kubelet fall silent; the node's pods go on, and nobody tells of them."""
        machine = self._machine(node)
        at = Instant.now()
        self._set(machine, kubelet_up=False)
        return at

    def start_kubelet(self, node: str) -> Instant:
        """Start the kubelet again: it finds its pods as they are."""
        machine = self._machine(node)
        at = Instant.now()
        self._set(machine, kubelet_up=True)
        return at

    def preempt(self, node: str) -> Instant:
        """Have a pod of a higher priority want the whole node: the scheduler makes room for it.

        It takes no member that a gang needs for its minimum; then the pod waits.
        """
        self._machine(node)
        at = Instant.now()
        preemptors.want(self._objects, node)
        return at

    def relent(self, node: str) -> Instant:
        """Take that pod away again."""
        self._machine(node)
        at = Instant.now()
        preemptors.relent(self._objects, node)
        return at

    def _machine(self, node: str) -> Machine:
        if node not in self._kubelets:
            raise FaultNotPossibleError(f"no node {node!r}; there are {', '.join(self._kubelets)}")
        return self._kubelets[node].machine

    def _need_networks(self, fault: str) -> NodeNetworks:
        if self._networks is None:
            raise FaultNotPossibleError(f"{fault}: nodes have no networks of their own here")
        return self._networks

    def _set(self, machine: Machine, **state: bool) -> None:
        for name, value in state.items():
            setattr(machine, name, value)
        machine.changed()
        if machine.online:
            self._kubelets[machine.name].catch_up()
