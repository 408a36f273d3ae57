"""A pod's status as its kubelet writes it."""

import signal
from dataclasses import dataclass

from everstep_simcluster.clock import timestamp
from everstep_simcluster.resources import Object

_LOST_EXIT_CODE = 255  # what the container runtime says of a container from before a reboot
_NOT_STARTED_EXIT_CODE = 128
_SIGNAL_BASE = 128  # an exit by signal n is written as 128 + n


@dataclass(frozen=True)
class Ending:
    """How a container ended."""

    exit_code: int
    reason: str
    signal: int = 0
    message: str = ""
    started_at: str | None = None
    never_started: bool = False

    def state(self) -> Object:
        """As a container status has it."""
        said: Object = {
            "exitCode": self.exit_code,
            "reason": self.reason,
            "startedAt": self.started_at,
            "finishedAt": timestamp(),
        }
        if self.signal:
            said["signal"] = self.signal
        if self.message:
            said["message"] = self.message
        return {"terminated": said}


def of_exit(status: int, started_at: str) -> Ending:
    """The ending of a process: ``status`` is its exit code, or minus the signal that ended it."""
    if status < 0:
        name = signal.Signals(-status).name
        code = _SIGNAL_BASE - status
        return Ending(code, "Error", signal=-status, message=name, started_at=started_at)
    return Ending(status, "Error" if status else "Completed", started_at=started_at)


def lost() -> Ending:
    """The ending of a container whose machine lost its power."""
    return Ending(_LOST_EXIT_CODE, "Unknown", message="lost with its machine")


def not_started(why: str) -> Ending:
    """The ending of a container that could not be started at all."""
    return Ending(_NOT_STARTED_EXIT_CODE, "StartError", message=why, never_started=True)


def pod_status(pod: Object, phase: str, address: str, container: Object) -> Object:
    """The whole status.

    Args:
        pod: The pod as it is; conditions of others are kept.
        phase: Its new phase.
        address: Of the node, which the pod shares.
        container: ``state``, ``lastState`` and ``restartCount`` of its only container, and what
            its probes say: ``started`` and ``ready``.
    """
    before = pod["status"]
    runs = "running" in container["state"]
    ready = runs and container["ready"]
    spec = pod["spec"]["containers"][0]
    return {
        **before,
        "phase": phase,
        "hostIP": address,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": before.get("startTime") or timestamp(),
        "conditions": _conditions(before.get("conditions") or [], ready=ready),
        "containerStatuses": [
            {
                "name": spec["name"],
                "image": spec.get("image", ""),
                "imageID": "",
                **container,
                "ready": ready,
                "started": runs and container["started"],
            }
        ],
    }


def _conditions(before: list[Object], *, ready: bool) -> list[Object]:
    status = "True" if ready else "False"
    kept = [c for c in before if c["type"] not in ("Ready", "ContainersReady")]
    known = {c["type"]: c for c in before}
    for kind in ("ContainersReady", "Ready"):
        same = known.get(kind, {}).get("status") == status
        since = known[kind]["lastTransitionTime"] if same else timestamp()
        kept.append(
            {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": since}
        )
    return kept
