"""Which kubeconfig files lead to the cluster, by the variable that kubectl obeys."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "KUBECONFIG"


def kubeconfig_files(named: Path | None, environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The file that is ``named``, else all that ``KUBECONFIG`` lists, else the one in the home.

    None: the pod's service account. kubectl merges what the variable lists, and of what two files
    say the first one's word counts.
    """
    if named is not None:
        return (named,)
    listed = [path for path in environ.get(VARIABLE, "").split(os.pathsep) if path]
    if listed:
        return tuple(Path(path).expanduser() for path in listed)
    usual = Path(environ.get("HOME", "/")) / ".kube" / "config"
    return (usual,) if usual.exists() else ()
