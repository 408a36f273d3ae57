"""Thresholds of the cluster half."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterPolicy:
    """Thresholds of what is done to the cluster (R23); durations in seconds.

    Args:
        act: Whether anything is written at all, or only told.
        look_seconds: Between two looks at the cluster.
        silent_seconds: An agent that has not reported for so long is silent.
        quarantine_silence_seconds: A node that was silent for so long is quarantined.
        pod_silence_seconds: A pod that was silent for so long on a Ready node is deleted.
        repetition: A node is quarantined that lost members in so many incidents ...
        repetition_seconds: ... within this time.
        max_quarantined: Nodes that may be quarantined at a time.
        fence_margin_seconds: A forced deletion waits so much longer than an agent takes to fence
            itself (R24).
        eviction_pause_seconds: An eviction that a disruption budget forbids is tried again so
            much later.
        well_seconds: A quarantine by silence ends when its node has been well for so long.
    """

    act: bool = False
    look_seconds: float = 1.0
    silent_seconds: float = 3.0
    quarantine_silence_seconds: float = 60.0
    pod_silence_seconds: float = 60.0
    repetition: int = 3
    repetition_seconds: float = 6 * 3600.0
    max_quarantined: int = 3
    fence_margin_seconds: float = 15.0
    well_seconds: float = 30.0
    eviction_pause_seconds: float = 5.0
