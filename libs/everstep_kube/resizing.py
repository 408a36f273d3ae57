"""A Volcano Job's size: read for a change of it, and changed by one conditional JSON patch.

Volcano's webhook lets nothing else of a Job change than its counts, and refuses replicas below the
task's minAvailable, so all three counts go into one patch, and nothing else (EC-19).
"""

from dataclasses import dataclass

from everstep_contract.identity import JobKey
from everstep_contract.rescaling import MOST_MEMBERS, JobSize

from everstep_kube.client import JSON_PATCH, Json, KubeClient, Request
from everstep_kube.errors import ConflictError, InvalidError, NotFoundError


@dataclass(frozen=True)
class SizedJob:
    """A Volcano Job as a change of its size needs it. ``size`` None: it has several tasks."""

    job: JobKey
    uid: str
    resource_version: str
    size: JobSize | None


class Resizing:
    """Reads and changes the size of Jobs. Reads are quorum reads."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def read(self, job: JobKey) -> SizedJob | None:
        """The Job, if there is one of that name."""

        def sized(found: Json) -> SizedJob:
            metadata = found["metadata"]
            return SizedJob(job, metadata["uid"], metadata["resourceVersion"], _size(found))

        return await self._client.find(jobs_path(job.namespace), job.name, sized)

    async def change(self, job: SizedJob, size: JobSize) -> None:
        """Give the Job as it was read this size.

        Raises:
            ConflictError: It has changed since, or is gone: read it again, decide again.
            RejectedError: It is not allowed, or the webhook refuses it, or the patch does not apply
                to what is there: a failed test has the same answer, and no word about it.
        """
        tests = [
            {"op": "test", "path": "/metadata/uid", "value": job.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": job.resource_version},
        ]
        body: list[Json] = [*tests, *size.operations()]
        request = Request("PATCH", _path(job.job), body=body, content_type=JSON_PATCH)
        try:
            await self._client.call(request)
        except NotFoundError as error:
            raise ConflictError(str(request), status=404, message="it is gone") from error
        except ConflictError as error:
            if await self.read(job.job) != job:
                raise
            raise InvalidError(str(request), status=error.status, message=str(error)) from error


def jobs_path(namespace: str) -> str:
    """Where the Jobs of a namespace are."""
    return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"


def _path(job: JobKey) -> str:
    return f"{jobs_path(job.namespace)}/{job.name}"


def _size(job: Json) -> JobSize | None:
    """As the webhook completed it: an unset minAvailable of the task is its replicas."""
    spec = job.get("spec") or {}
    tasks: list[Json] = spec.get("tasks") or []
    if len(tasks) != 1:
        return None
    replicas = _count(tasks[0].get("replicas", 1))
    return JobSize(replicas=replicas, min_available=_count(spec.get("minAvailable", replicas)))


def _count(value: int) -> int:
    return min(max(value, 0), MOST_MEMBERS)
