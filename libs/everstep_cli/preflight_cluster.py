"""A Job as it is in a cluster, and what lies beside it, as one text."""

import asyncio
import os
from pathlib import Path
from typing import Any, Final

import yaml
from everstep_preflight.errors import UnreadableError

from everstep_cli.errors import CommandError, MisuseError

_BESIDE: Final = {
    "scheduling.volcano.sh/v1beta1": ("PodGroup", "podgroups"),
    "policy/v1": ("PodDisruptionBudget", "poddisruptionbudgets"),
}


def fetched(job: str, kubeconfig: Path | None) -> str:
    """The Job NAMESPACE/NAME, then the PodGroups and budgets of its namespace.

    Raises:
        MisuseError: ``job`` is no such name.
        UnreadableError: The cluster does not answer, or has no such Job.
        CommandError: What speaks to clusters is not installed.
    """
    namespace, slash, name = job.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise MisuseError(f"--from-cluster {job}: NAMESPACE/NAME")
    try:
        from everstep_kube.errors import KubeError
    except ImportError as error:
        raise CommandError(f"--from-cluster needs the services extra: {error}") from None
    try:
        objects = asyncio.run(_objects(namespace, name, kubeconfig))
    except KubeError as error:
        raise UnreadableError(f"cluster:{job}", str(error)) from None
    return yaml.safe_dump_all(objects, sort_keys=False)


async def _objects(namespace: str, name: str, kubeconfig: Path | None) -> list[Any]:
    from everstep_kube.client import Request, connect

    jobs = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs"
    async with connect(_files(kubeconfig), user_agent="everstep-preflight") as client:
        found = [await client.call(Request("GET", f"{jobs}/{name}"))]
        for version, (kind, plural) in _BESIDE.items():
            path = f"/apis/{version}/namespaces/{namespace}/{plural}"
            answer = await client.call(Request("GET", path))
            items = answer.get("items") or []
            found += [{"apiVersion": version, "kind": kind} | item for item in items]
    for one in found:
        one.get("metadata", {}).pop("managedFields", None)
    return found


def _files(named: Path | None) -> tuple[Path, ...]:
    """Where kubectl looks; none is the pod's own service account."""
    from everstep_kube.kubeconfig import kubeconfig_files

    return kubeconfig_files(named, os.environ)
