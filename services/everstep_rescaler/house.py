"""What everything in the cluster half works with."""

from dataclasses import dataclass

from everstep_bus.interface import Bus
from everstep_kube.writing import ClusterApi
from everstep_runtime.clock import Clock

from everstep_rescaler.cluster_policy import ClusterPolicy
from everstep_rescaler.telling import Teller


@dataclass(frozen=True)
class House:
    """One rescaler's way to the bus and to its cluster, and what it may do there.

    ``api`` is guarded by the lease: it does not write once another may lead.
    """

    bus: Bus
    api: ClusterApi
    clock: Clock
    policy: ClusterPolicy
    teller: Teller
