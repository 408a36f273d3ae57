"""Another size of a job, as an operator asks for it: the wish, and the change of the Volcano Job.

The wish is kept in the job's record. Its stages are ``asked``: the rescaler has not said whether it
may change the Job; ``granted``: it may, and members that would go leave the gang first; ``done``
and ``refused``, with the reason: over.
"""

import json
from typing import Any, Literal

from pydantic import AwareDatetime, Field

from everstep_contract.base import Model, Name, Text

RescaleStage = Literal["asked", "granted", "done", "refused"]
MOST_MEMBERS = 100_000


class JobSize(Model):
    """How many pods a Volcano Job of one task asks for, and how many of them it needs."""

    replicas: int = Field(ge=0, le=MOST_MEMBERS)
    min_available: int = Field(ge=0, le=MOST_MEMBERS)

    def __str__(self) -> str:
        return f"replicas {self.replicas}, minAvailable {self.min_available}"

    def operations(self) -> list[dict[str, Any]]:
        """The JSON patch that gives a Job this size.

        All in one, for Volcano refuses fewer replicas than the task's minAvailable.
        """
        return [
            {"op": "replace", "path": "/spec/tasks/0/replicas", "value": self.replicas},
            {"op": "replace", "path": "/spec/tasks/0/minAvailable", "value": self.min_available},
            {"op": "replace", "path": "/spec/minAvailable", "value": self.min_available},
        ]

    def by_hand(self, namespace: str, name: str) -> str:
        """The command by which a person gives a Job this size."""
        patch = json.dumps(self.operations(), separators=(",", ":"))
        return f"kubectl -n {namespace} patch jobs.batch.volcano.sh {name} --type=json -p '{patch}'"


class Rescale(Model):
    """An operator's wish for another size of a job, and what has become of it."""

    id: Name
    size: JobSize
    stage: RescaleStage = "asked"
    reason: Text
    asked_at: AwareDatetime
    size_before: JobSize | None = Field(
        default=None, description="The Job's, when it was granted: any other is somebody's change."
    )
    detail: Text = Field(default="", description="Why it was refused.")

    @property
    def is_open(self) -> bool:
        """Whether something is still to be done about it."""
        return self.stage in ("asked", "granted")
