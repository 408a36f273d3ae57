"""What a container's process is started with: command line, environment, working folder."""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from everstep_simcluster.errors import UnsupportedPodError
from everstep_simcluster.launcher import PodCommand
from everstep_simcluster.resources import Object, value_at

INHERITED = (
    "PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE",
    "VIRTUAL_ENV", "LD_LIBRARY_PATH",
)  # fmt: skip
"""Variables that a pod gets from the cluster's own process, in place of an image's."""

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.][A-Za-z0-9_.-]*)\)")
_MAP_ENTRY = re.compile(r"^metadata\.(annotations|labels)\['([^']+)'\]$")


def pod_command(pod: Object, folder: Path, netns: str | None) -> PodCommand:
    """The command of the pod's first container.

    Args:
        pod: A bound pod whose status names its addresses.
        folder: The pod's own, which exists; its log goes there, and it is the working folder of a
            container that names none.
        netns: The network namespace of its node, if it has one.

    Raises:
        UnsupportedPodError: No command, or a variable from a source that is not supported.
    """
    container = pod["spec"]["containers"][0]
    env = _environment(pod, container)
    argv = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not container.get("command"):
        raise UnsupportedPodError("no command: there is no image here to take one from")
    return PodCommand(
        argv=tuple(_expanded(word, env) for word in argv),
        env={name: os.environ[name] for name in INHERITED if name in os.environ} | env,
        cwd=Path(container.get("workingDir") or folder),
        netns=netns,
        log=log_file(folder),
    )


def log_file(folder: Path) -> Path:
    """Where the output of a pod with that folder goes."""
    return folder / "log"


def _environment(pod: Object, container: Object) -> dict[str, str]:
    env = {"HOSTNAME": pod["metadata"]["name"]}
    for entry in container.get("env") or ():
        source = entry.get("valueFrom")
        if source is None:
            env[entry["name"]] = _expanded(entry.get("value") or "", env)
        elif "fieldRef" in source:
            env[entry["name"]] = _field(pod, source["fieldRef"].get("fieldPath", ""))
        else:
            kinds = ", ".join(source)
            raise UnsupportedPodError(f"variable {entry['name']} comes from {kinds}")
    return env


def _field(pod: Object, path: str) -> str:
    found = _MAP_ENTRY.match(path)
    if found:
        return str((pod["metadata"].get(found[1]) or {}).get(found[2], ""))
    value = value_at(pod, path)
    if isinstance(value, dict):
        return "\n".join(f'{key}="{value[key]}"' for key in sorted(value))
    return "" if value is None else str(value)


def _expanded(text: str, env: Mapping[str, str]) -> str:
    """``$(NAME)`` becomes the variable's value; an unknown one stays; ``$$`` is one dollar."""

    def put(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return env.get(found[1], found[0])

    return _REFERENCE.sub(put, text)
