"""The Volcano Job of a drill, as a user would write it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from everstep_contract.identity import JobKey
from everstep_preflight.rules.agents import DOWNWARD

from everstep_cli.drill.fault import CHECKPOINT_EVERY, SNAPSHOT_EVERY

JOB: Final = JobKey(namespace="training", name="drill")
TASK: Final = "worker"
RUN: Final = ("everstep", "run")
"""What the pods' command begins with; a pod template server knows it by this."""
TRAINER: Final = (
    *("-m", "everstep_trainer.drill_train"),
    *("--snapshot-every", str(SNAPSHOT_EVERY), "--checkpoint-every", str(CHECKPOINT_EVERY)),
)
"""What is trained where no script is given."""


@dataclass(frozen=True)
class Gang:
    """How many members, how few may go on, how many workers each has, and what they train.

    ``training``: a script, or ``-m`` and a module, and its arguments.
    """

    members: int
    min_member: int
    nproc: int
    training: tuple[str, ...] = TRAINER


def job_manifest(gang: Gang, variables: Mapping[str, str]) -> dict[str, Any]:
    """A Job with no policies: a deleted pod is remade under its own index and costs no retry."""
    command = (
        *RUN,
        *("--nnodes", f"{gang.min_member}:{gang.members}"),
        *("--nproc-per-node", str(gang.nproc)),
        *gang.training,
    )
    container = {
        "name": "trainer",
        "image": "everstep/drill",
        "command": list(command),
        "env": [
            *({"name": name, "value": value} for name, value in variables.items()),
            *(_downward(name, path) for name, path in DOWNWARD.items()),
        ],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
    }
    task = {
        "name": TASK,
        "replicas": gang.members,
        "minAvailable": gang.min_member,
        "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"namespace": JOB.namespace, "name": JOB.name},
        "spec": {
            "schedulerName": "volcano",
            "queue": "default",
            "minAvailable": gang.min_member,
            "tasks": [task],
        },
    }


def _downward(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
