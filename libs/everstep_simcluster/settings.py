"""Every knob of a simulated cluster."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

Networks = Literal["auto", "namespaces", "none"]


@dataclass(frozen=True)
class ClusterSettings:
    """What cluster to make. Durations are short, so that things happen while one watches.

    Args:
        nodes: How many; they are called node-0, node-1, ...
        gpus_per_node: Devices of each (``nvidia.com/gpu``).
        networks: ``namespaces`` gives each node a network of its own (root only), ``none`` an
            address in 127/8, ``auto`` the first where it is allowed.
        loopback: First two numbers of the addresses of nodes without networks of their own.
        namespaces: Kubernetes namespaces that are there from the start, beside ``default``.
        folder: Where logs and the kubeconfig go; None for a temporary one that goes on close.
        port: Of the API server on loopback; 0 takes a free one.
        heartbeat_seconds: Between two signs of life of a kubelet (real: 10).
        node_grace_seconds: Silence after which a node is Unknown (real: 40).
        restart_delay_seconds: Before a container is started again (real: 10, growing).
        pod_start_seconds: From a pod's binding to the start of its process.
        pod_stop_seconds: From the end of a pod's process until the pod is gone from the API.
        toleration_seconds: How long pods that say nothing stay on a node that is not ready or
            unreachable (real: 300).
        job_delay_seconds: Before Volcano's job controller acts on what it hears.
        budget_delay_seconds: Before the disruption controller acts on what it hears.
        scheduler_period_seconds: Before the scheduler acts on what it hears (real: up to 1).
        bookmark_seconds: Between two bookmarks of a watch (real: about 60).
        controllers: Whether anything but the API server runs: without, objects are only kept.
        volcano_webhook: Whether Volcano's admission webhook is installed.
        template_socket: Where a pod template server listens (see ``launcher``), if one does.
        template_prefix: Commands that begin so are forked from it.
    """

    nodes: int = 8
    gpus_per_node: int = 8
    networks: Networks = "auto"
    loopback: str = "127.0"
    namespaces: tuple[str, ...] = ()
    folder: Path | None = None
    port: int = 0
    heartbeat_seconds: float = 1.0
    node_grace_seconds: float = 4.0
    restart_delay_seconds: float = 1.0
    pod_start_seconds: float = 0.0
    pod_stop_seconds: float = 0.0
    toleration_seconds: int = 300
    job_delay_seconds: float = 0.0
    budget_delay_seconds: float = 0.0
    scheduler_period_seconds: float = 0.0
    bookmark_seconds: float = 60.0
    controllers: bool = True
    volcano_webhook: bool = True
    template_socket: Path | None = None
    template_prefix: tuple[str, ...] = field(default=("everstep", "run"))

    def __post_init__(self) -> None:
        if self.nodes < 0 or self.gpus_per_node < 0:
            raise ValueError(f"{self.nodes} nodes of {self.gpus_per_node} GPUs")
        if self.networks not in get_args(Networks):
            raise ValueError(f"networks {self.networks!r}; possible: {get_args(Networks)}")
        for name in ("heartbeat_seconds", "node_grace_seconds", "bookmark_seconds"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.nodes and not self.controllers:
            raise ValueError("nodes become ready only where controllers run")
