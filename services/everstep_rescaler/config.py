"""Every knob of the rescaler."""

from pathlib import Path
from typing import Literal

from everstep_runtime.settings import ServiceSettings
from pydantic import Field

from everstep_rescaler.cluster_policy import ClusterPolicy


class Settings(ServiceSettings):
    """What the rescaler can be told, each as ``EVERSTEP_<FIELD>``. Orders need none of it."""

    cluster: Literal["none", "kubernetes"] = "none"
    mode: Literal["observe", "act"] = Field(
        default="observe", description="Whether the cluster is written to, or only told about."
    )
    kubeconfig_path: Path | None = Field(
        default=None, description="None: as KUBECONFIG says, else the pod's service account."
    )
    agent_silent_seconds: float = Field(default=3.0, gt=0)
    quarantine_silence_seconds: float = Field(default=60.0, gt=0)
    pod_silence_seconds: float = Field(default=60.0, gt=0)
    quarantine_repetition: int = Field(default=3, ge=2)
    quarantine_repetition_seconds: float = Field(default=6 * 3600.0, gt=0)
    max_quarantined_nodes: int = Field(default=3, ge=0)
    fence_margin_seconds: float = Field(default=15.0, ge=0)
    well_seconds: float = Field(default=30.0, gt=0)

    def cluster_policy(self) -> ClusterPolicy:
        """What may be done to the cluster, and when."""
        return ClusterPolicy(
            act=self.mode == "act",
            silent_seconds=self.agent_silent_seconds,
            quarantine_silence_seconds=self.quarantine_silence_seconds,
            pod_silence_seconds=self.pod_silence_seconds,
            repetition=self.quarantine_repetition,
            repetition_seconds=self.quarantine_repetition_seconds,
            max_quarantined=self.max_quarantined_nodes,
            fence_margin_seconds=self.fence_margin_seconds,
            well_seconds=self.well_seconds,
        )
