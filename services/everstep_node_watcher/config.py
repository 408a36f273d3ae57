"""Every knob of the node watcher."""

import socket
from pathlib import Path
from typing import Literal

from everstep_contract.base import Name
from everstep_contract.clients import ServiceClient
from everstep_runtime.settings import ServiceSettings
from pydantic import Field

from everstep_node_watcher.model import Policy


class Settings(ServiceSettings):
    """What the node watcher can be told, each as ``EVERSTEP_<FIELD>``."""

    nats_system_seed_path: Path | None = Field(
        default=None, description="Seed of the system account's user."
    )
    nats_canary_seed_path: Path | None = Field(default=None, description="The canaries' seed.")
    node: Name = Field(default_factory=socket.gethostname, description="Where this one runs.")
    cluster: Literal["none", "kubernetes"] = "none"
    kubeconfig_path: Path | None = Field(
        default=None, description="None: as KUBECONFIG says, else the pod's service account."
    )
    inventory_seconds: float = Field(default=2.0, gt=0)
    reassert_seconds: float = Field(default=3.0, gt=0)
    reconnect_grace_seconds: float = Field(
        default=4.0, gt=0, description="Longer than an agent's longest pause before it reconnects."
    )
    blind_members: int = Field(default=2, ge=1)
    blind_seconds: float = Field(default=30.0, gt=0)
    not_ready_seconds: float = Field(
        default=30.0, ge=0, description="A kubelet's restart makes its node NotReady for less."
    )

    @property
    def canaries(self) -> tuple[ServiceClient, ...]:
        """One client on each server: what becomes of it becomes of the watcher's view (R14)."""
        return tuple(
            ServiceClient("canary", f"{self.instance}-{index}")
            for index, _ in enumerate(self.nats_urls)
        )

    def policy(self) -> Policy:
        """How the watcher judges."""
        return Policy(
            witness=self.instance,
            node=self.node,
            canaries=frozenset(self.canaries),
            inventory_seconds=self.inventory_seconds,
            reassert_seconds=self.reassert_seconds,
            reconnect_grace_seconds=self.reconnect_grace_seconds,
            blind_members=self.blind_members,
            blind_seconds=self.blind_seconds,
            not_ready_seconds=self.not_ready_seconds,
        )
